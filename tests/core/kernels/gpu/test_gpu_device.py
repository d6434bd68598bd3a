"""Runs the same tests with kernels that are compiled for the device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PYTEST = [sys.executable, "-m", "pytest", "-q", "-n", "6", "-m", ""]
PYTEST += ["-o", "filterwarnings=default"]


@pytest.mark.gpu
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.skipif("KERNEL_DEVICE" in os.environ, reason="this is that process")
def test_compiled_kernels_pass_the_same_tests() -> None:
    """In separate processes, because Triton interprets everything or nothing.

    Most of the time goes into compiling, so several share the device. Its Triton and
    torch may be other ones than this repository's, with warnings of their own.
    """
    environment = {
        **os.environ,
        "KERNEL_DEVICE": "cuda",
        "TRITON_INTERPRET": "0",
    }
    folder = Path(__file__).parent

    done = subprocess.run(
        [*PYTEST, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
