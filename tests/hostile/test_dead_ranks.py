"""Ranks that are killed, stopped or orphaned, behind a real server."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from hookline_testing.rank_pids import rank_pids
from hookline_testing.server_process import Server, serving
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "mp", "--num-kv-blocks", "256"),
    *("--tensor-parallel-size", "2", "--heartbeat-seconds", "0.2"),
    *("--step-timeout", "2", "--engine-restart", "3"),
)
LONG = {"model": "demo", "prompt": [1, 2, 3], "max_tokens": 500, "ignore_eos": True}
SHORT = {"model": "demo", "prompt": [4, 5, 6], "max_tokens": 4}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(*OPTIONS) as made:
        yield made


def answers(server: Server) -> bool:
    return bool(server.post("/v1/completions", SHORT)[0] == 200)


def is_gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")  # noqa: PTH110 - quick


def while_running(
    server: Server, pool: ThreadPoolExecutor, number: int, rank: int
) -> tuple[list[int], Future[tuple[int, Any]]]:
    """Sends a signal to a rank in the middle of a request."""
    pids = rank_pids(server.engine_pid)
    sent = pool.submit(server.post, "/v1/completions", LONG)
    server.wait_for("hookline_requests_running", 1)
    os.kill(pids[rank], number)
    return pids, sent


def test_a_killed_rank_is_named_and_replaced(server: Server) -> None:
    """With all ranks of its engine; the request that ran ends or begins again."""
    with ThreadPoolExecutor() as pool:
        pids, sent = while_running(server, pool, signal.SIGKILL, rank=1)
        status, _ = sent.result()

    wait_until(lambda: answers(server), "the engine was not replaced")
    assert status in {200, 500, 503}
    server.log_with("rank 1: its process was killed by SIGKILL")
    assert all(is_gone(pid) for pid in pids)
    assert not set(rank_pids(server.engine_pid)) & set(pids)


def test_an_idle_engine_notices_that_a_rank_has_ended(server: Server) -> None:
    """Without a request that would fail."""
    wait_until(lambda: answers(server), "the server does not answer")
    engine, pids = server.engine_pid, rank_pids(server.engine_pid)

    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: is_gone(engine), "the engine lives on without a rank")

    wait_until(lambda: answers(server), "the engine was not replaced")
    assert all(is_gone(pid) for pid in pids)


def test_a_stopped_rank_is_named(server: Server) -> None:
    """The engine counts as stalled, and works again once the rank goes on."""
    wait_until(lambda: answers(server), "the server does not answer")
    with ThreadPoolExecutor() as pool:
        pids, sent = while_running(server, pool, signal.SIGSTOP, rank=1)
        server.wait_for("hookline_engine_stalled", 1)
        status, _ = sent.result()
        os.kill(pids[1], signal.SIGCONT)
        server.wait_for("hookline_engine_stalled", 0)

    wait_until(lambda: answers(server), "the engine does not recover")
    assert status in {500, 503}
    server.log_with("the process of rank 1 is stopped")


def test_ranks_end_with_their_engine(server: Server) -> None:
    """Also one that is stopped and could notice nothing."""
    wait_until(lambda: answers(server), "the server does not answer")
    engine, pids = server.engine_pid, rank_pids(server.engine_pid)
    os.kill(pids[0], signal.SIGSTOP)
    os.kill(engine, signal.SIGKILL)

    wait_until(lambda: all(map(is_gone, pids)), f"one of {pids} lives on")
