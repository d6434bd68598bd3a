"""A server whose engines come and go: under load, with deaths, and at its end."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import (
    Server,
    descendants_of,
    engines_of,
    serving,
)
from hookline_testing.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "512"),
    *("--simulated-step-seconds", "0.01", "--heartbeat-seconds", "0.2"),
    *("--max-num-seqs", "8", "--enable-scaling"),
)
RANK = "X-data-parallel-rank"
THREADS = 24
ENGINES = ("0", "1", "2")
REASONS = ("length", "abort", "error", "rejected")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS + 2) as made:
        yield made


def ask(server: Server, number: int, max_tokens: int = 30) -> int:
    """Sends a request of its own prompt; returns the status."""
    body = {
        "model": "demo",
        "prompt": [5 + number % 300, 6, 7],
        "max_tokens": max_tokens,
        "ignore_eos": True,
    }
    return server.post("/v1/completions", body)[0]


def scale(server: Server, number: int) -> tuple[int, Any]:
    return server.post("/scale", {"data_parallel_size": number})


def wait_until(holds: Callable[[], object]) -> None:
    deadline = Deadline(PATIENCE_SECONDS)
    while not holds():
        assert deadline.is_ahead
        time.sleep(0.02)


def shown(server: Server, state: str) -> list[int]:
    """The engines in a state."""
    engines = json.loads(server.get("/scale")[1])["engines"]
    return [each["engine"] for each in engines if each["state"] == state]


def load(
    pool: ThreadPoolExecutor, server: Server, is_over: list[bool]
) -> list[Future[Counter[int]]]:
    """Clients that ask again and again; returns the statuses that each has got."""

    def repeat(client: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        while not is_over:
            statuses[ask(server, client)] += 1
        return statuses

    return [pool.submit(repeat, client) for client in range(THREADS)]


def assert_books_balance(server: Server, sent: int) -> None:
    """Received = finished = sent, over all engines that have been; residue 0."""
    finished = [
        {"engine": engine, "reason": reason} for engine in ENGINES for reason in REASONS
    ]
    server.wait_for_sum("hookline_requests_finished_total", sent, finished)
    received = [{"engine": engine} for engine in ENGINES]
    server.wait_for_sum("hookline_requests_received_total", sent, received)
    for engine in ENGINES:
        for kind in ("requests", "tokens", "blocks"):
            name = "hookline_conservation_residue"
            assert not server.find(name, engine=engine, kind=kind)


@pytest.mark.exhaustive
def test_engines_come_and_go_under_load(pool: ThreadPoolExecutor) -> None:
    """
    Every request is answered well; gauges of engines that have left are gone. So it is
    with two API servers, in `test_scaling_api_servers`.
    """
    is_over: list[bool] = []
    with serving(*OPTIONS) as server:
        clients = load(pool, server, is_over)
        grown = scale(server, 3)
        for engine in ENGINES:
            server.wait_for_any("hookline_requests_running", engine=engine)
        shrunk = scale(server, 1)
        again = scale(server, 2)
        is_over.append(True)
        wait(clients)
        statuses = sum((each.result() for each in clients), Counter())

        assert [answer[0] for answer in (grown, shrunk, again)] == [200] * 3
        assert set(statuses) == {200}
        assert_books_balance(server, statuses.total())
        assert sorted(engines_of(server.process.pid)) == [0, 1]
        server.wait_for("hookline_engines", 2, state="serving")
        assert server.metric("hookline_engines_added_total") == 3
        assert server.metric("hookline_engines_removed_total") == 2
        assert server.find("hookline_engine_up", engine="1") == 1
        for name in ("hookline_engine_up", "hookline_requests_running"):
            assert server.find(name, engine="2") is None


def test_a_new_engine_is_killed_while_it_starts(pool: ThreadPoolExecutor) -> None:
    """The call is a 503 that says why; the other serves on, and a retry succeeds."""
    with serving(*OPTIONS) as server:
        call = pool.submit(scale, server, 2)
        wait_until(lambda: 1 in engines_of(server.process.pid))
        os.kill(engines_of(server.process.pid)[1], signal.SIGKILL)
        status, body = call.result()
        served = ask(server, 1)
        retried = scale(server, 2)[0]

        assert (status, body["error"]["code"]) == (503, "engine_start_failed")
        assert "SIGKILL" in body["error"]["message"]
        assert (served, retried) == (200, 200)
        server.wait_for("hookline_engine_starts_failed_total", 1)
        assert_books_balance(server, 1)


def test_a_draining_engine_is_killed(pool: ThreadPoolExecutor) -> None:
    """Its streams end with an error, and it has left; the others are not affected."""
    body = {
        "model": "demo",
        "prompt": "a",
        "max_tokens": 500,
        "ignore_eos": True,
        "stream": True,
    }
    with serving(*OPTIONS, "--data-parallel-size", "2") as server:
        streams = [server.stream("/v1/completions", body) for _ in range(2)]
        for _, response in streams:
            assert response.readline().startswith(b"data: ")
        call = pool.submit(scale, server, 1)
        wait_until(lambda: shown(server, "leaving") == [1])
        busy = scale(server, 2)
        os.kill(engines_of(server.process.pid)[1], signal.SIGKILL)
        ends = [response.read() for _, response in streams]
        status, answer = call.result()

        assert (busy[0], busy[1]["error"]["code"]) == (409, "scaling_in_progress")
        assert sorted(b'data: {"error"' in each for each in ends) == [False, True]
        assert (status, answer["data_parallel_size"]) == (200, 1)
        assert_books_balance(server, 2)
        assert server.find("hookline_engine_up", engine="1") is None
        for connection, _ in streams:
            connection.close()


def test_the_end_comes_while_an_engine_starts(pool: ThreadPoolExecutor) -> None:
    """The call is a 503, and no process is left."""
    with serving(*OPTIONS) as server:
        call = pool.submit(scale, server, 3)
        wait_until(lambda: 2 in engines_of(server.process.pid))
        children = descendants_of(server.process.pid)
        status = server.end()

        assert call.result()[0] == 503
        assert status == 0
        paths = [Path(f"/proc/{each}") for each in children]
        wait_until(lambda: not any(each.exists() for each in paths))


def test_the_load_brings_engines_and_takes_them(pool: ThreadPoolExecutor) -> None:
    """More come while clients wait, and go when it is quiet; no request is lost."""
    is_over: list[bool] = []
    options = ("--autoscale", "1:2", "--autoscale-quiet", "1")
    with serving(*OPTIONS, *options) as server:
        clients = load(pool, server, is_over)
        server.wait_for("hookline_engines", 2, state="serving")
        refused = scale(server, 1)
        is_over.append(True)
        wait(clients)
        statuses = sum((each.result() for each in clients), Counter())
        server.wait_for("hookline_engines", 1, state="serving")

        assert (refused[0], refused[1]["error"]["param"]) == (409, "autoscale")
        assert set(statuses) == {200}
        assert_books_balance(server, statuses.total())
        assert server.metric("hookline_engines_added_total") == 1
        assert server.metric("hookline_scaling_decisions_total", reason="quiet") >= 1
        assert server.metric("hookline_engines_limit", bound="maximum") == 2
        server.log_with("saturation of the engines", "engine 1 has left")
