"""A logger that forks a child, which lives longer than the server."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.plugin_site import PluginSite
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

FORKING = """
import os
import time

from hookline import hookimpl


def fork(event):
    if not os.path.exists(os.environ["CHILD_FILE"] + event):
        child = os.fork()
        if not child:
            time.sleep(300)
            os._exit(0)
        path = os.environ["CHILD_FILE"] + event
        with open(os.environ["NEW_FILE"], "w") as file:
            file.write(str(child))
        os.rename(os.environ["NEW_FILE"], path)


@hookimpl
def engine_started(started):
    fork("started")


@hookimpl
def requests_finished(finished):
    fork("finished")
"""
END_SECONDS = 30


@pytest.fixture(params=["own process", "observer process"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server whose logger forks at its start and after the first request."""
    with PluginSite(tmp_path) as site:
        site.install("forking", FORKING)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    environment = {"PYTHONPATH": path, "CHILD_FILE": f"{tmp_path}/child-"}
    environment["NEW_FILE"] = f"{tmp_path}/new"
    arguments: tuple[str, ...] = ("--executor", "simulated", "--port", "0")
    arguments = (*arguments, "--stat-logger", "forking")
    if request.param == "observer process":
        arguments = (*arguments, "--observer-process")
    with serving(*arguments, environment=environment) as running:
        try:
            yield running
        finally:
            for child in tmp_path.glob("child-*"):
                with suppress(ProcessLookupError):
                    os.kill(int(child.read_text()), signal.SIGKILL)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = Deadline(END_SECONDS)
    while not holds():
        assert deadline.is_ahead, what
        time.sleep(0.05)


def is_free(port: int) -> bool:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", port))
            found.listen()
        except OSError:
            return False
    return True


@pytest.fixture
def client(server: Server, tmp_path: Path) -> Iterator[socket.socket]:
    """An open connection, beside which the logger has forked twice."""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, timeout=END_SECONDS) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        body = {"model": model_of(server), "prompt": [1, 2], "max_tokens": 2}
        assert server.post("/v1/completions", body)[0] == 200
        for event in ("started", "finished"):
            wait_until((tmp_path / f"child-{event}").exists, f"not forked: {event}")
        yield connection


def model_of(server: Server) -> str:
    name: str = json.loads(server.get("/v1/models")[1])["data"][0]["id"]
    return name


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]
    except FileNotFoundError:
        return False


def test_killed_server_leaves_nothing_behind_but_the_child(
    server: Server, client: socket.socket, tmp_path: Path
) -> None:
    """
    When the server is killed, its engine ends, its port is free and its clients see the
    end, though a logger's children live on.
    """
    engine = server.engine_pid

    server.process.kill()
    server.process.wait()

    wait_until(lambda: not is_running(engine), "the engine lives on")
    wait_until(lambda: is_free(server.port), "the port is taken")
    assert client.recv(1 << 16) == b""
    for path in tmp_path.glob("child-*"):
        assert is_running(int(path.read_text()))


def test_server_ends_gently_beside_the_child(
    server: Server, client: socket.socket, tmp_path: Path
) -> None:
    """
    SIGTERM ends the server as usual, and one to a child does not reach the server.
    """
    child = int((tmp_path / "child-finished").read_text())
    os.kill(child, signal.SIGTERM)
    wait_until(lambda: not is_running(child), "the child ignores SIGTERM")
    assert server.get("/health")[0] == 200

    assert server.end() == 0
    assert is_free(server.port)
    assert client.recv(1 << 16) == b""
