"""Whoever watches a process outlives errors, and never waits for it without a bound."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hookline import AsyncEngine, EngineConfig, SamplingParams
from hookline.config import SupervisionConfig
from hookline_cluster.clients import owner_client
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.config import ClusterConfig, MachinesConfig
from hookline_cluster.machines import headless_node
from hookline_cluster.machines.headless_node import HeadlessNode
from hookline_cluster.shared_engine import SharedEngine
from hookline_processes.supervised import Supervised
from hookline_processes.watcher import Watcher
from hookline_ranks.processes import rank_processes
from hookline_ranks.processes.rank_processes import RankProcesses

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]

WAIT_SECONDS = 60.0


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_watcher_outlives_errors(caplog: pytest.LogCaptureFixture) -> None:
    """An error is logged once a minute at most, and the function is called again."""
    calls = []
    has_gone_on = threading.Event()

    def look() -> bool:
        calls.append(1)
        if len(calls) < 4:
            raise OSError("too many open files")
        has_gone_on.set()
        return True

    watcher = Watcher(look, name="a watcher", seconds=0.001)

    assert has_gone_on.wait(WAIT_SECONDS)
    assert watcher.close(WAIT_SECONDS)
    assert caplog.text.count("a watcher: look: OSError: too many open files") == 1


def test_watcher_that_hangs_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Closing waits for a call in bounded time, and says that it goes on."""
    has_begun, may_end = threading.Event(), threading.Event()

    def look() -> bool:
        has_begun.set()
        return may_end.wait(WAIT_SECONDS)

    watcher = Watcher(look, name="a watcher", seconds=0.0)
    assert has_begun.wait(WAIT_SECONDS)

    is_ended = watcher.close(0.01)
    may_end.set()

    assert not is_ended
    assert "a watcher has not ended in 0.01 s" in caplog.text


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


@pytest.mark.usefixtures("site")
async def test_engine_that_cannot_be_started_again_is_tried_again(
    start_engine: StartEngine,
    slow_process: EngineConfig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The front end lives on, and the engine is replaced as often as it may be."""
    supervised = SupervisionConfig(engine_restart=3)
    engine = await start_engine(replace(slow_process, supervision=supervised))
    refused = [True, True, False]

    def refuse_some(*arguments: Any) -> SharedEngine:
        if refused.pop(0):
            raise BlockingIOError("no more processes")
        return SharedEngine(*arguments)

    monkeypatch.setattr(owner_client, "SharedEngine", refuse_some)
    client = engine._front_end.engines.client
    assert isinstance(client, OwnerClient)
    os.kill(client.pids[0], signal.SIGKILL)
    while "engine 0 has been replaced" not in caplog.text:  # noqa: ASYNC110 - a log
        await asyncio.sleep(0.05)
    stream = await engine.submit([1, 2], SamplingParams(max_tokens=2))
    outputs = [output async for output in stream]

    assert outputs[-1].finished
    assert caplog.text.count("its process cannot be started: no more processes") == 2


def test_headless_engine_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As often as it may be replaced; then it has failed, and so has the node."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(headless_node, "Supervised", refuse)
    node = HeadlessNode(
        EngineConfig(
            sections={
                "cluster": ClusterConfig(
                    data_parallel_size=2,
                    machines=MachinesConfig(
                        size_local=1, start_rank=1, address="127.0.0.1"
                    ),
                )
            },
            supervision=SupervisionConfig(engine_restart=1),
        )
    )

    assert not node.run(threading.Event(), 0.0)

    lines = [each for each in caplog.messages if "cannot be started" in each]
    reason = "engine 1: its process cannot be started: no more processes"
    assert lines == [f"{reason}; it is replaced", reason]


def test_ranks_that_cannot_be_watched_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that owns them ends them and tells why, and closing does not hang."""
    has_ended = threading.Event()

    def refuse(_: int) -> int:
        raise OSError("too many open files")

    class Links:
        rank = 3

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(
        rank_processes,
        "_start",
        lambda links: Supervised("timeit", (), name=f"rank {links.rank}"),
    )

    ranks = RankProcesses([Links()], has_ended.set)  # type: ignore[list-item]

    assert has_ended.wait(WAIT_SECONDS)
    assert str(ranks.failure) == (
        "rank 3: its process cannot be watched: too many open files"
    )
    ranks.close()
    assert not is_alive(ranks.pids[0])
