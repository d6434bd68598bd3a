"""The tiers of instructions: which there are, and that a lower one limits all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookline.config import ExecutorConfig
from hookline.exceptions import ConfigError
from hookline.worker.machine import choose_machine
from hookline_kernels.cpu import isa
from hookline_kernels.cpu.isa import Isa, current_isa, host_isas

LOWER = [each for each in host_isas() if each is not host_isas()[-1]]
PROBE = """
import numpy, torch, numba
from numba.core import types
from hookline.config import ExecutorConfig
from hookline.worker.machine import choose_machine
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.jit import compile_kernel, source_stamp

def body(place):
    numbers = array_at(place, 4096, numpy.float32)
    for at in range(4096):
        numbers[at] = numbers[at] * 2 + 1

machine = choose_machine(ExecutorConfig())
compile_kernel(body, types.void(types.intp), "probe")
features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[2]
print(machine.isa, torch.backends.cpu.get_cpu_capability(), source_stamp(), features)
"""


def test_a_tier_includes_those_below_it() -> None:
    """But none of another architecture."""
    assert Isa.AMX.includes(Isa.AVX2)
    assert Isa.AVX512.includes(Isa.AVX512)
    assert not Isa.AVX512.includes(Isa.AVX512_BF16)
    assert not Isa.AMX.includes(Isa.NEON)
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


@pytest.mark.parametrize("tier", LOWER, ids=lambda each: each.value)
def test_a_lower_tier_limits_compilers_and_libraries(tier: Isa, tmp_path: Path) -> None:
    """In another process, whose kernels are cached apart."""
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
    assert capability == ("AVX2" if tier is Isa.AVX2 else "AVX512")
    assert [path.name for path in tmp_path.glob("hookline/kernels/*")] == [stamp]
    wider = [each for each in features.split(",") if each.startswith("+avx512")]
    assert bool(wider) == tier.includes(Isa.AVX512)
    assert ("+avx512bf16" in wider) == tier.includes(Isa.AVX512_BF16)
    assert "+amx-tile" not in features
