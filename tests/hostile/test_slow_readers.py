"""Clients that request much and read nothing, or little."""

import json
import socket
from contextlib import ExitStack

import pytest

from hookline_testing.raw_http import read_all
from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

READERS = 3
LONG = {
    "model": "demo",
    "prompt": "a",
    "max_tokens": 1900,
    "ignore_eos": True,
    "stream": True,
    "n": 40,
}


def test_clients_that_never_read_are_cut_and_hold_little_memory() -> None:
    """
    Their streams are tens of megabytes; the server keeps a bounded part of each, closes
    the connections after the limit, and serves others meanwhile.
    """
    options = ("--executor", "simulated", "--simulated-step-seconds", "0.001")
    with (
        serving(*options, "--port", "0", "--write-timeout", "2") as server,
        ExitStack() as stack,
    ):
        quiet = server.resident_mb()
        never = [stack.enter_context(_requested(server, LONG)) for _ in range(READERS)]
        body = {**LONG, "stream": False, "max_tokens": 10, "n": 1}
        status, _ = server.post("/v1/completions", body)
        server.wait_for(
            "hookline_http_connections_closed_total", READERS, reason="write_timeout"
        )
        server.wait_for("hookline_requests_running", 0)
        grown = server.resident_mb() - quiet
        received = [len(read_all(each)) for each in never]

    assert status == 200
    assert grown < 100
    # What they could get was in the buffers of the two sockets.
    assert max(received) < 12_000_000


def test_a_client_that_reads_slowly_gets_everything() -> None:
    """One that pauses, but less than the limit, is not cut."""
    options = ("--executor", "simulated", "--simulated-step-seconds", "0.0005")
    with (
        serving(*options, "--port", "0", "--write-timeout", "5") as server,
        _requested(server, {**LONG, "max_tokens": 400, "n": 1}) as reader,
    ):
        received = reader.recv(1000)
        server.wait_for("hookline_requests_running", 0)
        received += read_all(reader)

    events = received.split(b"data: ")
    assert events[-1].startswith(b"[DONE]")
    assert b'"finish_reason":"length"' in received


def _requested(server: Server, body: object) -> socket.socket:
    """Requests a stream on a connection that buffers little and reads nothing."""
    connection = socket.socket()
    connection.settimeout(60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    data = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Length: {len(data)}"
    connection.sendall(head.encode() + b"\r\nConnection: close\r\n\r\n" + data)
    return connection
