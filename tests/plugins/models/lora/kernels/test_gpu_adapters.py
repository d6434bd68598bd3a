"""The GPU's kernel adds what its reference adds, and compiles without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

SHARED_BYTES = 101_376
"""Of a small GPU's multiprocessor; larger ones have more."""
TOLERANCES = {"torch.float32": 1e-5, "torch.float16": 1e-3}


def output_of(script: str, **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script))],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout.splitlines()


def test_the_interpreted_kernel_equals_the_reference() -> None:
    """Mixed slots and ranks, layers left alone, and sizes that fill no tiles."""
    lines = [
        line.split()
        for line in output_of("interpreted_adapters.py", TRITON_INTERPRET="1")
    ]

    assert len(lines) == 8
    for dtype, error in lines:
        assert float(error) <= TOLERANCES[dtype]


@pytest.mark.exhaustive
def test_the_kernel_compiles_and_fits_on_the_chip(tmp_path: Path) -> None:
    """For few and many rows of each dtype."""
    lines = output_of(
        "compile_adapters.py", TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)
    )

    assert len(lines) == 6
    assert all(int(line) <= SHARED_BYTES for line in lines)
