"""Two API servers share an engine on another machine, which dies, hangs and returns."""

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from http.client import HTTPException

import pytest

from hookline_testing.headless_process import headless
from hookline_testing.server_process import Server, api_servers_of, serving
from hookline_testing.waiting import wait_until

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(180)]

ENGINES = (
    *("--executor", "simulated", "--simulated-step-seconds", "0.01"),
    *("--data-parallel-size", "2", "--data-parallel-size-local", "1"),
    *("--num-kv-blocks", "512"),
)
SERVER = (
    *("--port", "0", "--heartbeat-seconds", "0.2", "--stat-logger", "prometheus"),
    *("--api-server-count", "2"),
)
REMOTE = ("--data-parallel-start-rank", "1")
RANK = "X-data-parallel-rank"
REQUESTS = 16
LONG, SHORT = 600, 5
CUT = "cut"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(REQUESTS) as made:
        yield made


@pytest.fixture
def link() -> tuple[str, ...]:
    """A port of the loopback, where the user's own secret is found."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return ("--data-parallel-rpc-port", str(probe.getsockname()[1]))


def ask(
    server: Server, number: int, max_tokens: int = SHORT, rank: int | None = None
) -> int | str:
    """Sends a request on a connection of its own; returns the status, or `CUT`."""
    body = {
        "model": "demo",
        "prompt": [5 + number, 6, 7],
        "max_tokens": max_tokens,
        "ignore_eos": True,
    }
    headers = {} if rank is None else {RANK: str(rank)}
    try:
        return server.post("/v1/completions", body, headers)[0]
    except (OSError, HTTPException):
        return CUT


def burst(pool: ThreadPoolExecutor, server: Server) -> list[Future[int | str]]:
    """Sends long requests, of which both engines get some from both servers."""
    sent = [pool.submit(ask, server, number, LONG) for number in range(REQUESTS)]
    both = [{"engine": index} for index in "01"]
    server.wait_for_sum("hookline_requests_running", REQUESTS, both)
    return sent


def outcomes(sent: list[Future[int | str]]) -> Counter[int | str]:
    wait(sent)
    return Counter(each.result() for each in sent)


def wait_for_return(server: Server) -> int:
    """Waits until both servers have engine 1 again; returns the requests served."""
    served = 0

    def is_there() -> bool:
        nonlocal served
        answers = [ask(server, number, rank=1) for number in range(4)]
        served += answers.count(200)
        return answers == [200] * 4

    wait_until(is_there, "engine 1 does not come back")
    return served


def assert_books_balance(server: Server, ended: dict[str, int]) -> None:
    """Received = finished, over both engines and both servers; residue 0."""
    for reason, count in ended.items():
        labels = [{"engine": each, "reason": reason} for each in "01"]
        server.wait_for_sum("hookline_requests_finished_total", count, labels)
    received = [{"engine": engine} for engine in "01"]
    server.wait_for_sum(
        "hookline_requests_received_total", sum(ended.values()), received
    )
    for engine in "01":
        for kind in ("requests", "tokens", "blocks"):
            name = "hookline_conservation_residue"
            assert server.metric(name, engine=engine, kind=kind) == 0


def test_an_engine_and_a_server_are_killed(
    pool: ThreadPoolExecutor, link: tuple[str, ...]
) -> None:
    """Requests move, the engine that returns serves; a dead server's are aborted."""
    with ExitStack() as stack:
        node = stack.enter_context(headless(*ENGINES, *REMOTE, *link))
        server = stack.enter_context(serving(*ENGINES, *SERVER, *link))
        engine = node.wait_for_engine()
        sent = burst(pool, server)
        for pid in (node.process.pid, engine):
            os.kill(pid, signal.SIGKILL)
        moved = outcomes(sent)
        server.wait_for("hookline_engine_up", 0, engine="1")
        stack.enter_context(headless(*ENGINES, *REMOTE, *link))
        served = wait_for_return(server)
        sent = burst(pool, server)
        killed = api_servers_of(server.process.pid)[0]
        os.kill(killed, signal.SIGKILL)
        cut = outcomes(sent)

        assert moved == {200: REQUESTS}
        assert cut.keys() == {200, CUT}
        completed = REQUESTS + served + cut[200]
        assert_books_balance(server, {"length": completed, "abort": cut[CUT]})
        assert server.metric("hookline_requests_moved_total", engine="1") > 0
        assert server.metric("hookline_engine_link_losses_total", engine="1") == 1
        server.wait_for("hookline_engine_link_joins_total", 2, engine="1")
        assert server.end() == 0


@pytest.mark.exhaustive
def test_an_engine_is_stopped_and_goes_on(
    pool: ThreadPoolExecutor, link: tuple[str, ...]
) -> None:
    """Both servers give it up after five seconds, and use its successor."""
    with ExitStack() as stack:
        node = stack.enter_context(headless(*ENGINES, *REMOTE, *link))
        server = stack.enter_context(serving(*ENGINES, *SERVER, *link))
        engine = node.wait_for_engine()
        sent = burst(pool, server)
        os.kill(engine, signal.SIGSTOP)
        lonely = [ask(server, number, rank=0) for number in range(4)]
        seen = outcomes(sent)
        during = [ask(server, number, rank=1) for number in range(4)]
        os.kill(engine, signal.SIGCONT)
        served = wait_for_return(server)

        assert lonely == [200] * 4
        assert seen == {200: REQUESTS}
        assert set(during) <= {503, 200}
        completed = REQUESTS + 4 + served + during.count(200)
        assert_books_balance(server, {"length": completed})
        reason = {"engine": "1", "reason": "lost"}
        server.wait_for("hookline_engine_restarts_total", 1, **reason)
        assert server.end() == 0
        assert node.process.wait(60) == 0
