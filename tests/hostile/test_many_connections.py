"""More connections than the server has file descriptors, and slow ones."""

import resource
import time
from contextlib import ExitStack
from functools import partial

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.raw_http import answer_of, connected, seconds_until_closed
from hookline_testing.server_process import serving
from hookline_testing.waiting import wait_for_value

pytestmark = pytest.mark.hostile

SIMULATED = ("--executor", "simulated", "--port", "0")
COMPLETION = {"model": "demo", "prompt": "a", "max_tokens": 4}


def test_idle_connections_do_not_keep_others_out() -> None:
    """
    With 64 file descriptors and 100 idle connections, health and completions are
    answered, the log stays small, and a metric counts the closed connections.
    """
    limits = {resource.RLIMIT_NOFILE: 64}
    with serving(*SIMULATED, limits=limits) as server, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connected(server.port))

        health = [server.get("/health", timeout_seconds=20)[0] for _ in range(3)]
        status, _ = server.post("/v1/completions", COMPLETION, timeout_seconds=20)
        time.sleep(2)
        log = server.log.read_bytes()
        wait_for_value(  # there are 64 descriptors
            partial(
                server.metric,
                "hookline_http_connections_closed_total",
                reason="evicted",
            ),
            lambda evicted: evicted > 36,
            "connections were not evicted",
        )

    assert health == [200, 200, 200]
    assert status == 200
    assert len(log) < 20_000
    assert b"system resource" not in log


def test_health_is_answered_while_every_connection_is_busy() -> None:
    """
    Streams that run are not closed for others, idle connections are: a further request
    is refused with a 503, and health is answered.
    """
    slow = ("--simulated-step-seconds", "0.2", "--max-connections", "4")
    with serving(*SIMULATED, *slow) as server, ExitStack() as stack:
        body = {**COMPLETION, "max_tokens": 500, "stream": True, "ignore_eos": True}
        streams = [server.stream("/v1/completions", body) for _ in range(4)]
        for connection, _ in streams:
            stack.callback(connection.close)
        first = [response.readline() for _, response in streams]
        for _ in range(50):
            stack.enter_context(connected(server.port))

        refused, answer = server.post("/v1/completions", COMPLETION)
        health, _ = server.get("/health")
        later = [response.readline() + response.readline() for _, response in streams]

    assert all(line.startswith(b"data: {") for line in first)
    assert (refused, answer["error"]["code"]) == (503, "too_many_connections")
    assert health == 200
    assert all(b"data: {" in lines for lines in later)


def test_slow_and_idle_connections_are_closed() -> None:
    """
    Headers and bodies that trickle, connections without a request, and those without
    another one are closed after their limits; the slow requests get a 408.
    """
    limits = ("--header-timeout", "1", "--body-timeout", "1", "--timeout-keep-alive")
    with serving(*SIMULATED, *limits, "1") as server, ExitStack() as stack:
        silent, headers, body, kept = [
            stack.enter_context(connected(server.port)) for _ in range(4)
        ]
        headers.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        body.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 90\r\n\r\n{"
        )
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

        closed = [seconds_until_closed(each) for each in (silent, kept)]
        late = [answer_of(each) for each in (headers, body)]

    assert all(seconds < 20 for seconds in closed)
    assert [answer.status for answer in late] == [408, 408]
    codes = [answer.error["code"] for answer in late]
    assert codes == ["header_timeout", "body_timeout"]


def test_a_trickling_header_does_not_extend_its_time() -> None:
    """One byte now and then is not progress: the limit counts from the first byte."""
    with serving(*SIMULATED, "--header-timeout", "1") as server:
        connection = connected(server.port, timeout_seconds=0.2)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        received = b""
        deadline = Deadline(20)
        while not received and deadline.is_ahead:
            try:
                connection.sendall(b"a")
                received = connection.recv(65536)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        connection.close()

    assert received.startswith(b"HTTP/1.1 408 ")
