"""Runs the same tests with kernels that are compiled for the device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.skipif("KERNEL_DEVICE" in os.environ, reason="this is that process")
def test_compiled_kernels_pass_the_same_tests() -> None:
    """In a separate process, because Triton interprets everything or nothing."""
    environment = {
        **os.environ,
        "KERNEL_DEVICE": "cuda",
        "TRITON_INTERPRET": "0",
        "TRITON_DEFAULT_FP_FUSION": "1",  # unset, it warns that its default will change
    }
    folder = Path(__file__).parent

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
