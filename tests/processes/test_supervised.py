"""Starting and ending a process when the kernel refuses to."""

import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_processes.supervised import Output, Supervised
from hookline_testing.essential import essential

WAIT_SECONDS = 60.0
MOST_BYTES = 1 << 16
FORK_SECONDS = 0.5
"""Time for a fork that nothing keeps from happening."""


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


@pytest.mark.parametrize(
    "stage", essential(["Popen", "_fork_exec"], "_fork_exec", slow=["Popen"])
)
def test_fork_waits_for_the_start_of_a_process(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A child that another thread forks meanwhile holds nothing that the start opens. It
    would keep `Popen` from returning, and either process from seeing the other's end.
    """
    go_on = getattr(subprocess, stage)
    reading, writing = os.pipe()
    forking = threading.Thread(target=_fork_and_report, args=(writing,))
    opened: set[str] = set()

    def start(*arguments: object, **options: object) -> object:
        forking.start()
        forking.join(FORK_SECONDS)
        return go_on(*arguments, **options)

    with monkeypatch.context() as patched:
        _note_opened(patched, opened)
        patched.setattr(subprocess, stage, start)
        process = Supervised("timeit", (), name="x", output=Output.NONE)
        forking.join()
    held = set(os.read(reading, MOST_BYTES).decode().split())
    process.close(WAIT_SECONDS)
    os.close(reading)
    os.close(writing)

    assert held
    assert {each.partition(":")[0] for each in opened} == {"socket", "pipe"}
    assert not held & opened


def _note_opened(patched: pytest.MonkeyPatch, opened: set[str]) -> None:
    """Adds the pairs of sockets and pipes that this thread opens; others do as well."""
    thread, socketpair, pipe = threading.get_ident(), socket.socketpair, os.pipe

    def note(*descriptors: int) -> None:
        if threading.get_ident() == thread:
            links = (Path(f"/proc/self/fd/{each}") for each in descriptors)
            opened.update(str(link.readlink()) for link in links)

    def open_sockets() -> tuple[socket.socket, socket.socket]:
        pair = socketpair()
        note(*(each.fileno() for each in pair))
        return pair

    def open_pipe() -> tuple[int, int]:
        ends = pipe()
        note(*ends)
        return ends

    patched.setattr(socket, "socketpair", open_sockets)
    patched.setattr(os, "pipe", open_pipe)


def _fork_and_report(writing: int) -> None:
    """Forks a child that writes what it holds, and waits for its end."""
    if not (child := os.fork()):
        os.write(writing, " ".join(_held()).encode())
        os._exit(0)
    os.waitpid(child, 0)


def _held() -> set[str]:
    """Returns the sockets and pipes of this process."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder's own descriptor is closed by now
            found.add(str(path.readlink()))
    return {each for each in found if each.startswith(("socket:", "pipe:"))}
