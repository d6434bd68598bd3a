"""A small body that inflates to a huge one costs nothing before its sender is known."""

import contextlib
import socket
import threading
import time
import zlib

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

KEY = "a-key-that-clients-need"
BODY_BYTES = 16_000_000
SENDERS = 8
LONGEST_STALL_SECONDS = 3.0


def bomb() -> bytes:
    """16 MB of raw deflate data that inflate to 16 GB."""
    press = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    piece = press.compress(bytes(1 << 20)) + press.flush(zlib.Z_FULL_FLUSH)
    return piece * (BODY_BYTES // len(piece)) + press.flush()


def send(port: int, path: str, body: bytes) -> None:
    """Sends a body until the server has enough."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Encoding: deflate\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.settimeout(30)
        client.sendall(head.encode() + body)
        client.recv(4096)


def stall(server: Server, path: str) -> float:
    """Longest time that a probe takes while bombs are sent, and after that."""
    worst = 0.0
    arguments = (server.port, path, bomb())
    senders = [threading.Thread(target=send, args=arguments) for _ in range(SENDERS)]
    for each in senders:
        each.start()
    until = time.monotonic() + 1.5
    while time.monotonic() < until or any(each.is_alive() for each in senders):
        stopwatch = server.stopwatch()
        status, _ = server.get("/health/live")
        assert status == 200
        worst = max(worst, stopwatch.own_seconds)
        time.sleep(0.02)
    return worst


def test_bombs_without_a_key_stall_nothing() -> None:
    """
    Refused bodies are neither inflated nor waited for.
    """
    with serving("--port=0", "--executor=simulated", f"--api-key={KEY}") as server:
        before = server.resident_mb()

        for path in ("/v1/completions", "/nowhere"):
            assert stall(server, path) < LONGEST_STALL_SECONDS

        assert server.resident_mb() - before < 100


def test_bombs_while_the_model_loads_stall_nothing() -> None:
    """
    The answer that the model is loading neither inflates nor waits for bodies.
    """
    argv = ("--port=0", "--executor=simulated", f"--api-key={KEY}")
    with serving(*argv, is_awaited=False) as server:
        server.wait_until_listening()

        assert stall(server, "/v1/completions") < LONGEST_STALL_SECONDS
