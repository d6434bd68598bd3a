"""The limit of instruction sets for all sides of a comparison."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compare_isa import Isa, limits, peer_limits
from compare_rows import ROWS
from compare_sides import sides_of

FEATURES = ("avx2", "avx512_f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16")
EXPECTED = {
    Isa.AVX512_BF16: ["avx2", "avx512_f", "avx512_bf16", "avx512_vnni"],
    Isa.AVX512: ["avx2", "avx512_f", "avx512_vnni"],
    Isa.AVX2: ["avx2"],
}
TORCH = f"""
def get_capabilities():
    return dict.fromkeys({FEATURES!r}, True)

def is_supported(name):
    return get_capabilities().get(name, False)
"""
ASK = f"""
import json, sys
assert "torch" not in sys.modules
import torch.cpu
print(json.dumps([each for each in {FEATURES!r} if torch.cpu.is_supported(each)]))
"""


@pytest.mark.parametrize("isa", Isa)
def test_torch_reports_a_lesser_processor(tmp_path: Path, isa: Isa) -> None:
    """What asks a peer's torch sees the features of the tier, and no more."""
    package = tmp_path / "torch" / "cpu"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    (package / "__init__.py").write_text(TORCH)
    variables = dict(peer_limits(isa))
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", ASK], env=variables, stdout=subprocess.PIPE, check=True
    )

    assert json.loads(done.stdout) == EXPECTED[isa]


@pytest.mark.parametrize("isa", Isa)
def test_all_sides_have_the_same_limits(isa: Isa) -> None:
    """Each side's environment has the libraries' switches; ours needs no pretence."""
    ours, *peers = sides_of(ROWS["offline-90m"], Path("/opt/peer"), None)

    assert ours.environment(isa).items() >= limits(isa).items()
    assert "isa_limit" not in ours.environment(isa).get("PYTHONPATH", "")
    assert len(peers) == 3
    for peer in peers:
        expected = {**limits(isa), **peer_limits(isa)}
        assert peer.environment(isa).items() >= expected.items()


def test_no_limit_changes_nothing() -> None:
    """Without a limit, a side has this process's environment."""
    ours, *_ = sides_of(ROWS["offline-90m"], None, None)

    assert ours.environment(None) == dict(os.environ)
