"""Every GPU kernel compiles to machine code, with or without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

KERNELS = {"decode", "prefill", "norm", "silu_mul", "rotate", "write"} | {
    "new_tokens",
    "thin",
    "best",
    "argmax",
    "survey",
    "gather",
    "floor",
    "sum",
    "draw",
    "reject",
}
SHARED_BYTES = 101_376
"""Of a small GPU's multiprocessor; larger ones have more."""
LARGE_SHARED_BYTES = 227 << 10
"""Of those that fetch tiles by a copy engine."""


@pytest.mark.exhaustive
def test_every_kernel_compiles_and_fits_on_the_chip(tmp_path: Path) -> None:
    """In a process that does not interpret, with its own cache."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "compile_all.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-5_000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert {name for name, _ in lines} == {f"_{name}_kernel" for name in KERNELS}
    large = {name: int(shared) for name, shared in lines if "new_tokens" in name}
    assert max(large.values()) <= LARGE_SHARED_BYTES
    assert all(
        int(shared) <= SHARED_BYTES for name, shared in lines if name not in large
    )
