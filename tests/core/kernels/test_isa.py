"""The tiers of instructions: which there are, and that a lower one limits all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.config import ExecutorConfig
from hookline.exceptions import ConfigError
from hookline_kernels.cpu import isa
from hookline_kernels.cpu.isa import Isa, current_isa, host_isas
from hookline_models.machines.choosing import choose_machine

LOWER = [each for each in host_isas() if each is not host_isas()[-1]]
PROBE = """
import numba, torch
from hookline.config import ExecutorConfig
from hookline_models.machines.choosing import choose_machine
from hookline_kernels.cpu.jit import source_stamp
from hookline_kernels.cpu.norm import RmsNorm
from hookline_kernels.layers import rms_norm_reference
from hookline_testing.essential import essential

machine = choose_machine(ExecutorConfig())
weight, values = torch.randn(40), torch.randn(3, 40)
found = RmsNorm(weight, 1e-5, unit_offset=False)(values)
expected = rms_norm_reference(values, weight, 1e-5, unit_offset=False)
torch.testing.assert_close(found, expected)
features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[2]
print(machine.isa, torch.backends.cpu.get_cpu_capability(), source_stamp(), features)
"""
FILES = [
    "compiled_attention",
    "eight_bit_cache",
    "float32_gemm",
    "gated",
    "linear",
    "norm",
    "quantized_integers",
    "rejection_kernels",
    "rotary_cache",
    "sampling_kernels",
    "shared_prefixes",
    "tiled_prefill",
    "tree_attention",
    "vector_gemm",
]
"""Tests of kernels that every tier has."""


def test_a_tier_includes_those_below_it() -> None:
    """But none of another architecture."""
    assert Isa.AMX.includes(Isa.AVX2)
    assert Isa.AVX512.includes(Isa.AVX512)
    assert not Isa.AVX512.includes(Isa.AVX512_BF16)
    assert not Isa.AMX.includes(Isa.NEON)
    assert Isa.AVX2_VNNI.includes(Isa.AVX2)
    assert Isa.AVX512_BF16.includes(Isa.AVX512_VNNI)
    assert not Isa.AVX512.includes(Isa.AVX2_VNNI)
    assert not Isa.AVX512.includes(Isa.AVX512_VNNI)
    assert Isa.NEON_BF16.includes(Isa.NEON)


@pytest.mark.parametrize("name", ["avx3", "neon_bf16", "vsx"])
def test_a_tier_that_the_machine_lacks_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the engine's start, by one error that lists what there is."""
    monkeypatch.setenv(isa.VARIABLE, name)
    monkeypatch.setattr(isa, "current_isa", current_isa.__wrapped__)
    monkeypatch.setattr("hookline_kernels.cpu.isa_limits.current_isa", isa.current_isa)
    monkeypatch.setattr(isa, "host_isas", lambda: (Isa.AVX2, Isa.AVX512))

    with pytest.raises(ConfigError, match=f"'{name}', but .* has avx2, avx512"):
        choose_machine(ExecutorConfig())


@pytest.mark.exhaustive
@pytest.mark.parametrize("tier", LOWER, ids=lambda each: each.value)
def test_a_lower_tier_limits_compilers_and_libraries(tier: Isa, tmp_path: Path) -> None:
    """In another process, whose kernels are right, and cached apart."""
    script = tmp_path / "probe.py"
    script.write_text(PROBE)

    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            isa.VARIABLE: tier.value,
            "XDG_CACHE_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name, capability, stamp, features = done.stdout.split()

    assert name == tier.value
    assert capability == ("AVX512" if tier.includes(Isa.AVX512) else "AVX2")
    assert [path.name for path in tmp_path.glob("hookline/kernels/*")] == [stamp]
    wider = [each for each in features.split(",") if each.startswith("+avx512")]
    assert bool(wider) == tier.includes(Isa.AVX512)
    assert ("+avx512bf16" in wider) == tier.includes(Isa.AVX512_BF16)
    assert ("+avx512vnni" in wider) == tier.includes(Isa.AVX512_VNNI)
    assert ("+avxvnni" in features.split(",")) == (tier is Isa.AVX2_VNNI)
    assert "+amx-tile" not in features


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("tier", LOWER, ids=lambda each: each.value)
def test_kernels_pass_the_same_tests_on_a_lower_tier(tier: Isa) -> None:
    """In a separate process, which emulates no tiles."""
    folder = Path(__file__).parent
    files = [str(path) for each in FILES for path in folder.glob(f"test_{each}.py")]
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--timeout", "0"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-m", "not exhaustive", *files],
        env={**os.environ, isa.VARIABLE: tier.value, isa.EMULATION: ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


@pytest.mark.exhaustive
@pytest.mark.parametrize("tier", [Isa.NEON, Isa.NEON_BF16], ids=lambda each: each.value)
def test_kernels_compile_for_arm(tier: Isa) -> None:
    """Those of attention, norms and products; dot products only where there are any."""
    script = str(Path(__file__).parent / "arm_objects.py")
    names = {isa.VARIABLE: "", isa.EMULATION: ""}

    done = subprocess.run(
        [sys.executable, script, tier.value],
        env=os.environ | names,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    dots = {
        name: int(count) for name, count in map(str.split, done.stdout.splitlines())
    }
    assert {name.partition("-")[0] for name in dots} >= {"prefill", "rms"}
    paired = {name for name, count in dots.items() if count}
    expected = {name for name in dots if "pairs" in name}
    assert paired == expected
    assert bool(paired) == (tier is Isa.NEON_BF16)
