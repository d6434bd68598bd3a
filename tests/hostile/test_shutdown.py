"""The end of a server: with a stopped engine, clients that hang, and kill -9."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.plugin_site import PluginSite
from hookline_testing.raw_http import answer_of, connected, read_all
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

SIMULATED = ("--executor", "simulated", "--port", "0", "--simulated-step-seconds")
LONG = {
    "model": "demo",
    "prompt": "a",
    "max_tokens": 1000,
    "ignore_eos": True,
    "stream": True,
}

HANGING = """
import threading

from hookline import hookimpl


def hang(*_):
    threading.Event().wait()


@hookimpl
def add_routes(routes):
    threading.Thread(target=hang).start()
    routes.get("/hangs", hang)


@hookimpl
def engine_stopped(stopped):
    hang()
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


def test_a_stopped_engine_does_not_delay_the_end(stack: ExitStack) -> None:
    """
    SIGTERM ends a server whose engine was stopped with SIGSTOP, and the engine, within
    the time for draining and closing; its port is free.
    """
    with serving(*SIMULATED, "0.05", "--shutdown-timeout", "1") as server:
        _streaming(server, stack)
        engine = server.engine_pid
        os.kill(engine, signal.SIGSTOP)

        status = server.end()

    assert status == 0
    _assert_gone(engine)
    _assert_free(server.port)


def test_a_second_signal_ends_the_process_at_once(stack: ExitStack) -> None:
    """
    The drain would take two minutes; the exit status is that of the second signal, and
    the engine, although stopped, is gone.
    """
    with serving(*SIMULATED, "0.05", "--shutdown-timeout", "120") as server:
        _streaming(server, stack)
        engine = server.engine_pid
        os.kill(engine, signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)
        _wait_for_drain(server)
        server.process.send_signal(signal.SIGINT)

        status = server.process.wait(20)

    assert status == 128 + signal.SIGINT
    _assert_gone(engine)
    _assert_free(server.port)


def test_a_client_that_never_reads_does_not_delay_the_end(stack: ExitStack) -> None:
    """Its response is cut off once the time for last writes is over."""
    with serving(*SIMULATED, "0.001", "--shutdown-timeout", "1") as server:
        body = {**LONG, "logprobs": 20, "max_tokens": 1900}
        connection, _ = server.stream("/v1/completions", body)
        stack.callback(connection.close)
        time.sleep(1)

        status = server.end()

    assert status == 0


def test_a_drain_refuses_requests_and_closes_idle_connections(
    stack: ExitStack,
) -> None:
    """
    While a stream runs on, an idle connection is closed; new requests get a 503 with
    Retry-After on a connection that ends, and readiness is 503.
    """
    with serving(*SIMULATED, "0.05") as server:
        _streaming(server, stack)
        idle = stack.enter_context(connected(server.port))
        idle.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        alive = idle.recv(65536)
        server.process.send_signal(signal.SIGTERM)
        _wait_for_drain(server)
        rest = read_all(idle)
        late = stack.enter_context(connected(server.port))
        late.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        answer = answer_of(late)
        live, _ = server.get("/health/live")
        server.process.send_signal(signal.SIGTERM)

    assert (alive[:15], rest) == (b"HTTP/1.1 200 OK", b"")
    assert (answer.status, answer.headers["connection"]) == (503, "close")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert live == 200


def test_a_logger_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    """Its page, its hook of the engine's end and a thread of its own never return."""
    with PluginSite(tmp_path) as site:
        site.install("hanging", HANGING)
    argv = (*SIMULATED, "0.001", "--stat-logger", "hanging", "--shutdown-timeout", "1")
    with serving(*argv, environment={"PYTHONPATH": str(tmp_path)}) as server:
        with pytest.raises(TimeoutError):
            server.get("/hangs", timeout_seconds=1)

        status = server.end()

    assert status == 0


@pytest.mark.parametrize("killed", ["server", "engine"])
def test_nothing_is_left_after_a_kill(stack: ExitStack, killed: str) -> None:
    """
    After kill -9 of the server its engine ends and the port is free; after that of the
    engine the server answers, and ends on SIGTERM.
    """
    with serving(*SIMULATED, "0.05") as server:
        _streaming(server, stack)
        engine = server.engine_pid
        os.kill(engine if killed == "engine" else server.process.pid, signal.SIGKILL)
        if killed == "engine":
            health, _ = server.get("/health/live")
            assert (health, server.end()) == (200, 0)
        else:
            server.process.wait(20)

        _assert_gone(engine)

    _assert_free(server.port)


def _streaming(server: Server, stack: ExitStack) -> None:
    """Starts a stream that takes a while."""
    connection, response = server.stream("/v1/completions", LONG)
    stack.callback(connection.close)
    assert response.readline().startswith(b"data: {")


def _wait_for_drain(server: Server) -> None:
    deadline = Deadline(20)
    while server.get("/health/ready")[0] != 503:
        assert deadline.is_ahead
        time.sleep(0.05)


def _assert_gone(pid: int) -> None:
    deadline = Deadline(20)
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            assert deadline.is_ahead, f"process {pid} is left"
            time.sleep(0.05)


def _assert_free(port: int) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
