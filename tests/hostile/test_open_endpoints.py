"""A server with a key does nothing for a client without it but the probes."""

import socket
import threading
from collections.abc import Iterator

import pytest

from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_testing.own_time import Deadline
from hookline_testing.scripted_server import FakeEngine
from hookline_testing.server_process import Server, serving

KEY = "a-key-that-clients-need"
WITH_KEY = {"Authorization": f"Bearer {KEY}"}
PROBES = {
    "/health",
    "/health/live",
    "/health/ready",
    "/live",
    "/livez",
    "/ready",
    "/readyz",
    "/ping",
}
BODY_BYTES = 8_000_000
PATIENCE_SECONDS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(
        "--port=0",
        "--executor=simulated",
        "--stat-logger=prometheus",
        "--enable-sleep-mode",
        "--enable-reset-prefix-cache",
        "--enable-scaling",
        f"--api-key={KEY}",
    ) as started:
        yield started


def routes() -> list[tuple[str, str]]:
    """Method and path of every route, those that must be enabled included."""
    settings = ServerSettings(
        enable_sleep_mode=True, enable_reset_prefix_cache=True, enable_scaling=True
    )
    app = create_app(FakeEngine(), settings)
    found = {
        (route.method, route.resource.canonical.replace("{model}", "demo"))
        for route in app.router.routes()
        if route.resource is not None
    }
    return sorted(found | {("GET", "/metrics")})


def head_of(method: str, path: str, *headers: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: localhost", *headers)
    return "\r\n".join((*lines, "", "")).encode()


def first_line(server: Server, sent: bytes) -> str:
    """First line of the answer to these bytes; empty if none comes."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(sent)
        try:
            return client.recv(4096).partition(b"\r\n")[0].decode()
        except TimeoutError:
            return ""


@pytest.mark.parametrize(("method", "path"), routes())
def test_every_route_but_the_probes_needs_a_key(
    server: Server, method: str, path: str
) -> None:
    """
    Without the key a route answers 401, whatever it does with one.
    """
    line = first_line(server, head_of(method, path, "Content-Length: 0"))

    expected = 200 if path in PROBES else 401
    assert line.startswith(f"HTTP/1.1 {expected} ")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/reset_prefix_cache"),
        ("POST", "/nowhere"),
        ("PUT", "/v1/completions"),
        ("OPTIONS", "/v1/completions"),
        ("OPTIONS", "*"),
        ("GET", "/metrics"),
    ],
)
@pytest.mark.parametrize("expectation", [(), ("Expect: 100-continue",)])
def test_no_body_is_asked_for_without_a_key(
    server: Server, method: str, path: str, expectation: tuple[str, ...]
) -> None:
    """
    The refusal comes before the body, and instead of `100 Continue`.
    """
    head = head_of(method, path, f"Content-Length: {BODY_BYTES}", *expectation)

    assert first_line(server, head).startswith("HTTP/1.1 401 ")


@pytest.mark.slow
def test_long_bodies_without_a_key_are_cut_off(server: Server) -> None:
    """
    A client that goes on sending after the refusal is cut off, not listened to.
    """
    sent = 0
    chunk = b"x" * 65536
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(head_of("POST", "/v1/completions", "Content-Length: 1000000000"))
        try:
            while sent < 10 * BODY_BYTES:
                sent += client.send(chunk)
        except ConnectionError:
            pass

    assert sent < 10 * BODY_BYTES


@pytest.mark.hostile
def test_large_bodies_without_a_key_disturb_nobody() -> None:
    """
    Ten large prompts to tokenize, sent without the key, cost clients with it nothing.
    """
    body = b'{"model": "demo", "prompt": "' + b"hello " * (BODY_BYTES // 6) + b'"}'
    with serving("--port=0", "--executor=simulated", f"--api-key={KEY}") as server:
        assert _tokenizes(server)
        before = server.resident_mb()
        posts = [threading.Thread(target=_post, args=(server, body)) for _ in range(10)]
        for post in posts:
            post.start()
        deadline = Deadline(PATIENCE_SECONDS)
        answers = [_tokenizes(server) for _ in range(20)]
        is_late = not deadline.is_ahead
        grown = server.resident_mb() - before
        for post in posts:
            post.join()

    assert all(answers)
    assert not is_late
    assert grown < 100


def _tokenizes(server: Server) -> bool:
    asked = {"model": "demo", "prompt": "hello"}
    status, _ = server.post("/tokenize", asked, WITH_KEY)
    return status == 200


def _post(server: Server, body: bytes) -> None:
    head = head_of("POST", "/tokenize", f"Content-Length: {len(body)}")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(60)
        try:
            client.sendall(head + body)
            client.recv(4096)
        except OSError:
            pass
