"""API servers, their parent and their engine are killed or stopped."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import (
    Server,
    api_servers_of,
    descendants_of,
    engines_of,
    serving,
)

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--api-server-count", "2"),
    *("--simulated-step-seconds", "0.01", "--num-kv-blocks", "512"),
    *("--heartbeat-seconds", "0.2"),
)
REQUESTS = 16
LONG = 400
"""Tokens: a long request outlasts what the tests do to processes."""
CUT = "cut"
DEADLINE = 60.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(REQUESTS) as made:
        yield made


def ask(server: Server, number: int, max_tokens: int = 5) -> int | str:
    """Sends a request on a connection of its own; returns the status, or `CUT`."""
    body = {
        "model": "demo",
        "prompt": [5 + number, 6, 7],
        "max_tokens": max_tokens,
        "ignore_eos": True,
    }
    try:
        return server.post("/v1/completions", body)[0]
    except (OSError, HTTPException):
        return CUT


def burst(pool: ThreadPoolExecutor, server: Server) -> list[Future[int | str]]:
    """Requests that run, about half of them at each server."""
    sent = [pool.submit(ask, server, number, LONG) for number in range(REQUESTS)]
    server.wait_for("hookline_requests_running", REQUESTS, engine="0")
    return sent


def until(holds: Callable[[], bool]) -> None:
    deadline = Deadline(DEADLINE)
    while not holds():
        assert deadline.is_ahead
        time.sleep(0.05)


def outcomes(sent: list[Future[int | str]]) -> Counter[int | str]:
    wait(sent)
    return Counter(each.result() for each in sent)


def assert_books_balance(server: Server, finished: dict[str, int]) -> None:
    """All requests that the engine has received have ended, for these reasons."""
    name = "hookline_requests_finished_total"
    for reason, count in finished.items():
        server.wait_for(name, count, reason=reason)
    received = server.metric("hookline_requests_received_total", engine="0")
    assert received == sum(finished.values())
    for kind in ("requests", "tokens", "blocks"):
        name = "hookline_conservation_residue"
        assert server.metric(name, engine="0", kind=kind) == 0
    for name in ("running", "waiting"):
        server.wait_for(f"hookline_requests_{name}", 0, engine="0")


def test_the_others_serve_on_when_a_server_is_stopped_or_killed(
    pool: ThreadPoolExecutor,
) -> None:
    """
    While it is stopped, others accept connections at once, and its requests end once it
    goes on. Those of a killed one are aborted in the engine, and another process takes
    its place.
    """
    with serving(*OPTIONS) as server:
        victim, other = api_servers_of(server.process.pid)
        sent = burst(pool, server)
        os.kill(victim, signal.SIGSTOP)
        statuses = [ask(server, number) for number in range(4)]
        os.kill(victim, signal.SIGCONT)

        assert statuses == [200] * 4
        assert outcomes(sent) == {200: REQUESTS}
        served = REQUESTS + 4
        assert_books_balance(server, {"length": served})

        sent = burst(pool, server)
        os.kill(victim, signal.SIGKILL)
        statuses = [ask(server, number) for number in range(4)]
        seen = outcomes(sent)
        until(lambda: len(api_servers_of(server.process.pid)) == 2)
        servers = api_servers_of(server.process.pid)

        assert statuses == [200] * 4
        assert seen.keys() == {200, CUT}
        assert other in servers
        assert victim not in servers
        served += seen[200] + 4
        assert_books_balance(server, {"length": served, "abort": seen[CUT]})


def test_nothing_is_left_when_the_parent_is_killed(pool: ThreadPoolExecutor) -> None:
    """Neither a process nor a socket's folder; clients see their connections end."""
    with serving(*OPTIONS) as server:
        children = descendants_of(server.process.pid)
        folders = {
            Path(word.decode())
            for child in children
            for word in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"/hookline-" in word
        }
        sent = burst(pool, server)
        server.process.kill()
        seen = outcomes(sent)
        until(lambda: not any(Path(f"/proc/{each}").exists() for each in children))
        until(lambda: not any(each.exists() for each in folders))

    assert len(folders) == 2  # that of the engines, and that of the observer
    assert seen == {CUT: REQUESTS}


def test_every_server_knows_that_the_engine_has_ended(
    pool: ThreadPoolExecutor,
) -> None:
    """Clients of both get an error, and both are ill; requests are counted once."""
    with serving(*OPTIONS) as server:
        sent = burst(pool, server)
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        seen = outcomes(sent)
        health = [health_at_once(server, 2) for _ in range(2)]
        server.wait_for("hookline_requests_finished_total", REQUESTS, reason="error")
        received = server.metric("hookline_requests_received_total", engine="0")

    assert seen == {503: REQUESTS}
    assert health == [[503, 503]] * 2
    assert received == REQUESTS


def test_requests_of_both_servers_move_to_the_other_engine(
    pool: ThreadPoolExecutor,
) -> None:
    """No client notices; each request is received once, whichever server had it."""
    with serving(*OPTIONS, "--data-parallel-size", "2") as server:
        sent = [pool.submit(ask, server, each, LONG) for each in range(REQUESTS)]
        both = [{"engine": engine} for engine in "01"]
        server.wait_for_sum("hookline_requests_running", REQUESTS, both)
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        seen = outcomes(sent)
        ended = [each | {"reason": "length"} for each in both]
        server.wait_for_sum("hookline_requests_finished_total", REQUESTS, ended)
        server.wait_for_sum("hookline_requests_received_total", REQUESTS, both)
        moved = server.metric("hookline_requests_moved_total", engine="0")
        server.wait_for("hookline_requests_taken_over_total", moved, engine="1")

    assert seen == {200: REQUESTS}
    assert moved > 0


def test_requests_begin_again_at_an_engine_that_is_replaced(
    pool: ThreadPoolExecutor,
) -> None:
    """
    Those of both servers, of which no client has got anything. Where a server is killed
    with the engine, only the engine's totals still include its requests; they count as
    aborted.
    """
    with serving(*OPTIONS, "--engine-restart", "2") as server:
        sent = burst(pool, server)
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)

        assert outcomes(sent) == {200: REQUESTS}
        assert_books_balance(server, {"length": REQUESTS})
        restarts = server.metric("hookline_engine_restarts_total", reason="exited")
        assert restarts == 1

        killed = api_servers_of(server.process.pid)[0]
        sent = burst(pool, server)
        for pid in (killed, engines_of(server.process.pid)[0]):
            os.kill(pid, signal.SIGKILL)
        seen = outcomes(sent)

        assert seen.keys() == {200, CUT}
        served = REQUESTS + seen[200]
        assert_books_balance(server, {"length": served, "abort": seen[CUT]})


def test_requests_end_whose_server_is_killed_while_they_wait_for_an_engine(
    pool: ThreadPoolExecutor,
) -> None:
    """The new process never gets those of that server; they count as aborted."""
    with serving(*OPTIONS, "--engine-restart", "1") as server:
        killed = api_servers_of(server.process.pid)[0]
        sent = burst(pool, server)
        first = engines_of(server.process.pid)[0]
        os.kill(first, signal.SIGKILL)
        until(lambda: engines_of(server.process.pid).get(0, first) != first)
        successor = engines_of(server.process.pid)[0]
        os.kill(successor, signal.SIGSTOP)  # it is not ready yet
        server.wait_for("hookline_engine_up", 0)  # once both servers have told it
        os.kill(killed, signal.SIGKILL)
        until(lambda: any(each.done() for each in sent))
        os.kill(successor, signal.SIGCONT)
        seen = outcomes(sent)

        assert seen.keys() == {200, CUT}
        assert_books_balance(server, {"length": seen[200], "abort": seen[CUT]})


def health_at_once(server: Server, connections: int) -> list[int]:
    """The answers of as many servers as there are simultaneous connections."""
    opened = [HTTPConnection("127.0.0.1", server.port) for _ in range(connections)]
    for each in opened:
        each.connect()
        time.sleep(0.05)
    statuses = []
    for each in opened:
        each.request("GET", "/health")
        statuses.append(each.getresponse().status)
    for each in opened:
        each.close()
    return statuses
