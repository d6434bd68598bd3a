"""Whoever watches a process outlives errors, and never waits for it without a bound."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hookline import AsyncEngine, EngineConfig, SamplingParams
from hookline_cluster.clients import owner_client
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.config import ClusterConfig, MachinesConfig
from hookline_cluster.machines import headless_node
from hookline_cluster.machines.headless_node import HeadlessNode
from hookline_cluster.shared_engine import SharedEngine
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_processes.supervised import Supervised
from hookline_ranks.processes import rank_processes
from hookline_ranks.processes.rank_processes import RankProcesses

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]

WAIT_SECONDS = 60.0


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.usefixtures("site")
async def test_engine_that_cannot_be_started_again_is_tried_again(
    start_engine: StartEngine,
    slow_process: EngineConfig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The front end lives on, and the engine is replaced as often as it may be."""
    supervised = SupervisionConfig(engine_restart=3)
    sections = {**slow_process.sections, "supervision": supervised}
    engine = await start_engine(replace(slow_process, sections=sections))
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
                ),
                "supervision": SupervisionConfig(engine_restart=1),
            },
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
