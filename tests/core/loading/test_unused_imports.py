"""Libraries that an engine's process leaves out."""

import sys
from importlib.util import find_spec

import pytest

from hookline.config import Device, ExecutorConfig
from hookline.worker.unused_imports import leave_out_triton


@pytest.fixture(autouse=True)
def no_triton_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules as they were, once a test has ended."""
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    sys.modules.pop("triton", None)


def test_engine_process_on_a_cpu_leaves_triton_out() -> None:
    """
    Whoever looks for Triton there, finds none.
    """
    leave_out_triton(ExecutorConfig(device=Device.CPU, shares_cores=True))

    assert find_spec("triton") is None


def test_process_of_a_caller_may_use_triton() -> None:
    """
    Offline engines run in a process that is not theirs.
    """
    leave_out_triton(ExecutorConfig(device=Device.CPU))

    assert "triton" not in sys.modules
