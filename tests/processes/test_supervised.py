"""Starting and ending a process when the kernel refuses to."""

import subprocess
import threading
from pathlib import Path

import pytest

from hookline_processes.supervised import Supervised

WAIT_SECONDS = 60.0


def test_process_that_cannot_be_started_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a pipe nor a process is left when the kernel refuses one or a thread."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    def refuse_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = sorted(Path("/proc/self/fd").iterdir())

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        with pytest.raises(OSError, match="no more processes"):
            Supervised("timeit", (), name="x")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        with pytest.raises(OSError, match="can't start new thread"):
            Supervised("timeit", (), name="x")

    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_process_that_the_kernel_keeps_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever ends one that not even SIGKILL ends waits some seconds, and no more."""

    def stay(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        assert timeout is not None
        raise subprocess.TimeoutExpired(process.args, timeout)

    process = Supervised("timeit", (), name="engine 0")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "wait", stay)
        process.close(0.0)

    assert "engine 0 was killed and has not ended in 5 s" in caplog.text
    process.close(WAIT_SECONDS)
