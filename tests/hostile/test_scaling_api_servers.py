"""Engines come and go behind two API servers: no request is lost, books balance."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from hookline_testing.server_process import (
    Server,
    api_servers_of,
    engines_of,
    serving,
)
from hookline_testing.waiting import wait_until

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "512"),
    *("--simulated-step-seconds", "0.01", "--heartbeat-seconds", "0.2"),
    *("--max-num-seqs", "8", "--enable-scaling", "--api-server-count", "2"),
)
CLIENTS = 16
LONG = 500
"""Tokens of streams that outlast what is done to processes meanwhile."""
CUT = "cut"
ENGINES = ("0", "1", "2")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CLIENTS + 2) as made:
        yield made


def ask(server: Server, number: int, max_tokens: int) -> int | str:
    """Streams a request on a connection of its own; returns the status, or `CUT`."""
    body = {
        "model": "demo",
        "prompt": [5 + number, 6, 7],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
    }
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        with closing(connection):
            connection.request("POST", "/v1/completions", json.dumps(body))
            response = connection.getresponse()
            status, text = response.status, response.read()
    except (OSError, HTTPException):
        return CUT
    return status if text.endswith(b"data: [DONE]\n\n") else CUT


def load(
    pool: ThreadPoolExecutor, server: Server, is_over: list[bool]
) -> list[Future[Counter[int | str]]]:
    """Clients that stream again and again, at both servers."""

    def repeat(client: int) -> Counter[int | str]:
        seen: Counter[int | str] = Counter()
        while not is_over:
            seen[ask(server, client, 20)] += 1
        return seen

    return [pool.submit(repeat, client) for client in range(CLIENTS)]


def outcomes(clients: list[Future[Counter[int | str]]]) -> Counter[int | str]:
    wait(clients)
    return sum((each.result() for each in clients), Counter())


def scale(server: Server, number: int) -> tuple[int, Any]:
    return server.post("/scale", {"data_parallel_size": number})


def serving_engines(server: Server) -> int:
    """The number of engines, whichever server answers."""
    shown: int = json.loads(server.get("/scale")[1])["data_parallel_size"]
    return shown


def assert_books_balance(server: Server, ended: dict[str, int]) -> None:
    """Received = finished, over all engines that have been; residue 0."""
    for reason, count in ended.items():
        labels = [{"engine": each, "reason": reason} for each in ENGINES]
        server.wait_for_sum("hookline_requests_finished_total", count, labels)
    received = [{"engine": engine} for engine in ENGINES]
    total = sum(ended.values())
    server.wait_for_sum("hookline_requests_received_total", total, received)
    for engine in ENGINES:
        for kind in ("requests", "tokens", "blocks"):
            name = "hookline_conservation_residue"
            assert not server.find(name, engine=engine, kind=kind)


def test_engines_come_and_go_under_load(pool: ThreadPoolExecutor) -> None:
    """Every stream ends well; both servers use all engines, and show the same."""
    is_over: list[bool] = []
    with serving(*OPTIONS) as server:
        clients = load(pool, server, is_over)
        grown = scale(server, 3)
        for engine in ENGINES:
            server.wait_for_any("hookline_requests_running", engine=engine)
        seen = [serving_engines(server) for _ in range(4)]
        shrunk = scale(server, 1)
        again = scale(server, 2)
        is_over.append(True)
        ends = outcomes(clients)

        assert [answer[0] for answer in (grown, shrunk, again)] == [200] * 3
        assert seen == [3] * 4
        assert set(ends) == {200}
        assert_books_balance(server, {"length": ends[200]})
        assert sorted(engines_of(server.process.pid)) == [0, 1]
        server.wait_for("hookline_engines", 2, state="serving")
        assert server.metric("hookline_engines_added_total") == 3
        assert server.metric("hookline_engines_removed_total") == 2
        for name in ("hookline_engine_up", "hookline_requests_running"):
            assert server.find(name, engine="2") is None


def test_a_server_is_killed_while_engines_leave(pool: ThreadPoolExecutor) -> None:
    """Its streams are cut and counted; the engines leave, and its successor serves."""
    with serving(*OPTIONS, "--data-parallel-size", "3") as server:
        killed, _ = api_servers_of(server.process.pid)
        streams = [pool.submit(ask, server, each, LONG) for each in range(CLIENTS)]
        running = [{"engine": engine} for engine in ENGINES]
        server.wait_for_sum("hookline_requests_running", CLIENTS, running)
        call = pool.submit(scale, server, 1)
        server.wait_for("hookline_engines", 2, state="leaving")
        os.kill(killed, signal.SIGKILL)
        wait(streams)
        ends = Counter(each.result() for each in streams)
        server.wait_for("hookline_engines", 0, state="leaving")
        wait_until(lambda: len(api_servers_of(server.process.pid)) == 2, "no successor")
        grown = scale(server, 2)
        later = [ask(server, each, 5) for each in range(8)]
        wait([call])

        assert ends.keys() == {200, CUT}
        assert grown[0] == 200
        assert set(later) == {200}
        expected = {"length": ends[200] + len(later), "abort": ends[CUT]}
        assert_books_balance(server, expected)


@pytest.mark.exhaustive
def test_the_load_of_all_servers_brings_engines(pool: ThreadPoolExecutor) -> None:
    """The parent knows what requests demand though it has none itself."""
    is_over: list[bool] = []
    options = ("--autoscale", "1:2", "--autoscale-quiet", "1")
    with serving(*OPTIONS, *options) as server:
        clients = load(pool, server, is_over)
        server.wait_for("hookline_engines", 2, state="serving")
        refused = scale(server, 1)
        is_over.append(True)
        ends = outcomes(clients)
        server.wait_for("hookline_engines", 1, state="serving")

        assert (refused[0], refused[1]["error"]["param"]) == (409, "autoscale")
        assert set(ends) == {200}
        assert_books_balance(server, {"length": ends[200]})
