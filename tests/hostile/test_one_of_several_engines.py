"""One of several engines is killed: what clients saw is what the metrics say."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from hookline_testing.essential import essential
from hookline_testing.own_time import Deadline
from hookline_testing.poison import POISON, poisonable
from hookline_testing.server_process import Server, engines_of, serving

pytestmark = pytest.mark.hostile

OPTIONS = (
    *("--port", "0", "--executor", "simulated", "--data-parallel-size", "2"),
    *("--simulated-step-seconds", "0.01", "--num-kv-blocks", "512"),
    *("--heartbeat-seconds", "0.2", "--metrics-dialect", "hookline,vllm,sglang"),
)
BODY = {"model": "demo", "ignore_eos": True}
LONG, SHORT = 600, 5
"""Tokens: a long request outlasts the sending of all of them."""
RANK = "X-data-parallel-rank"
REQUESTS = 24
Ask = Callable[[Server, int], int]
DEADLINE = 60.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(REQUESTS) as made:
        yield made


def ask(
    server: Server, number: int, max_tokens: int = SHORT, rank: int | None = None
) -> int:
    """Sends a request of its own prompt; returns the status."""
    body = BODY | {"prompt": [5 + number, 6, 7], "max_tokens": max_tokens}
    headers = {} if rank is None else {RANK: str(rank)}
    return server.post("/v1/completions", body, headers)[0]


def ask_long(server: Server, number: int) -> int:
    return ask(server, number, LONG)


def stream(server: Server, number: int) -> int:
    """Reads a stream to its end; returns the status, or 503 if an error ends it."""
    body = BODY | {"prompt": [5 + number, 6, 7], "max_tokens": LONG, "stream": True}
    connection, response = server.stream("/v1/completions", body)
    text = response.read().decode()
    connection.close()
    return 503 if '"error"' in text else response.status


def burst(
    pool: ThreadPoolExecutor, server: Server, begin: Ask = ask_long
) -> tuple[list[Future[int]], list[float]]:
    """Sends requests; returns them, and how many each engine has got.

    Usually each has got half of them.
    """
    sent = [pool.submit(begin, server, number) for number in range(REQUESTS)]
    name = "hookline_requests_running"
    series = [{"engine": "0"}, {"engine": "1"}]
    server.wait_for_sum(name, REQUESTS, series)
    return sent, [server.metric(name, **each) for each in series]


def finished(server: Server, count: int) -> Counter[str]:
    """Requests that ended, by reason, summed over the engines, once all are counted."""
    name = "hookline_requests_finished_total"
    series = [
        {"engine": engine, "reason": reason}
        for engine in ("0", "1")
        for reason in ("length", "error", "abort", "rejected")
    ]
    server.wait_for_sum(name, count, series)
    found: Counter[str] = Counter()
    for each in series:
        found[each["reason"]] += int(server.metric(name, **each))
    return +found


def assert_books_balance(server: Server, sent: int) -> None:
    received = (
        server.metric("hookline_requests_received_total", engine=engine)
        for engine in ("0", "1")
    )
    assert sum(received) == sent
    for engine in ("0", "1"):
        for kind in ("requests", "tokens", "blocks"):
            name = "hookline_conservation_residue"
            assert server.metric(name, engine=engine, kind=kind) == 0
    moved = server.metric("hookline_requests_moved_total", engine="0")
    taken = server.metric("hookline_requests_taken_over_total", engine="1")
    assert taken == moved
    reasons = ("load", "turn", "only", "prefix", "spill", "named")
    server.wait_for_sum(
        "hookline_requests_placed_total",
        sent,
        [{"engine": engine, "reason": each} for engine in "01" for each in reasons],
    )
    to = {"engine": "1", "reason": "moved"}
    assert (server.find("hookline_requests_placed_total", **to) or 0) == moved


def test_the_others_serve_on(pool: ThreadPoolExecutor) -> None:
    """Streams of the dead engine end with an error; the sums are what clients saw."""
    with serving(*OPTIONS) as server:
        sent, [ended, kept] = burst(pool, server, stream)
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        wait(sent)
        statuses = Counter(each.result() for each in sent)
        statuses.update(ask(server, number) for number in range(3))
        named = [ask(server, 1, rank=index) for index in (0, 1)]
        health = [server.get(path)[0] for path in ("/health", "/health/ready")]
        server.wait_for("hookline_requests_running", 0, engine="1")

        assert statuses == {200: kept + 3, 503: ended}
        assert named == [503, 200]
        assert health == [200, 200]
        # The refused one counts as rejected; it was placed nowhere.
        assert finished(server, REQUESTS + 5) == {
            "length": kept + 4,
            "error": ended,
            "rejected": 1,
        }
        assert_books_balance(server, REQUESTS + 4)
        assert server.metric("hookline_engine_up", engine="0") == 0
        for name in ("hookline_requests_running", "vllm:num_requests_running"):
            assert server.metric(name, engine="0") == 0
        assert server.metric("sglang:num_running_reqs", dp_rank="0") == 0


@pytest.mark.parametrize("restarts", essential(["0", "1"], "0"))
def test_untouched_requests_move(pool: ThreadPoolExecutor, restarts: str) -> None:
    """No client notices, whether the engine is replaced or not; each counts once."""
    with serving(*OPTIONS, "--engine-restart", restarts) as server:
        sent, [left, _] = burst(pool, server)
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        wait(sent)
        moved = server.metric("hookline_requests_moved_total", engine="0")

        assert Counter(each.result() for each in sent) == {200: REQUESTS}
        assert moved == left > 0
        assert finished(server, REQUESTS) == {"length": REQUESTS}
        assert_books_balance(server, REQUESTS)


def test_an_engine_that_crashes_leaves_the_last_one_alone(
    pool: ThreadPoolExecutor,
) -> None:
    """A fault may be the work of a request, which would end the other one, too."""
    with serving(*OPTIONS) as server:
        sent, [ended, kept] = burst(pool, server)
        os.kill(engines_of(server.process.pid)[0], signal.SIGSEGV)
        wait(sent)

        seen = Counter(each.result() for each in sent)
        assert seen == {200: kept, 503: ended}
        assert finished(server, REQUESTS) == {"length": kept, "error": ended}
        assert_books_balance(server, REQUESTS)


def test_a_request_that_ends_engines_leaves_the_last_ones(tmp_path: Path) -> None:
    """Of four engines it ends two; the last two serve on."""
    options = (*OPTIONS, "--data-parallel-size", "4")
    with serving(*options, environment=poisonable(tmp_path)) as server:
        poisoned, _ = server.post("/v1/completions", BODY | {"prompt": [POISON]})
        served = [ask(server, number) for number in range(4)]
        up = [server.metric("hookline_engine_up", engine=index) for index in "0123"]

    assert poisoned == 503
    assert served == [200] * 4
    assert sum(up) == 2


def test_it_is_replaced_if_that_is_allowed(pool: ThreadPoolExecutor) -> None:
    """Streams that have begun end with an error; the new process serves others."""
    with serving(*OPTIONS, "--engine-restart", "1") as server:
        sent, [kept, ended] = burst(pool, server, stream)
        os.kill(engines_of(server.process.pid)[1], signal.SIGKILL)
        wait(sent)
        deadline = Deadline(DEADLINE)
        while ask(server, 1, rank=1) != 200:
            assert deadline.is_ahead
        statuses = Counter(each.result() for each in sent)
        restarts = [
            server.metric(
                "hookline_engine_restarts_total", engine=engine, reason="exited"
            )
            for engine in ("0", "1")
        ]

        assert statuses == {200: kept, 503: ended}
        assert restarts == [0, 1]


def test_the_server_is_ill_without_its_last_engine(pool: ThreadPoolExecutor) -> None:
    """It answers that all are dead."""
    with serving(*OPTIONS) as server:
        sent, _ = burst(pool, server)
        for pid in engines_of(server.process.pid).values():
            os.kill(pid, signal.SIGKILL)
        wait(sent)
        health = server.get("/health")[0]
        late = ask(server, 1)

    assert {each.result() for each in sent} == {503}
    assert (health, late) == (503, 503)
