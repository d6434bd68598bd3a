"""A client that leaves at any moment is a 499, and never an error of the server's."""

import asyncio
import logging
import socket
import struct
from collections import Counter
from collections.abc import Callable

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from aiohttp.web_protocol import RequestHandler

from hookline.pages import PageResponse
from hookline.payloads import HttpExchange
from hookline_server.access_log import QuietAccessLogger
from hookline_server.app import create_app
from hookline_server.auth.key_ring import KeyRing
from hookline_server.browser_guard import BrowserGuard
from hookline_server.cors import CorsSettings
from hookline_server.listening import listen
from hookline_server.loading import create_loading_app
from hookline_server.respelling import fixed_paths
from hookline_server.settings import ServerSettings
from hookline_server.sites import around, sites
from hookline_testing.scripted_server import FakeEngine

MOMENTS = 30
"""So many turns of the loop after the news; all is over well before the last."""

BODY = b'{"model": "fake", "prompt": "ab"%s}'
STREAMED = BODY % b', "stream": true'
WHOLE = BODY % b""
TWO = STREAMED.replace(b'"ab"', b'["a", "b"]')
RESET = struct.pack("ii", 1, 0)

Client = TestClient[Request, Application]


def asking(path: str, body: bytes = b"", *headers: bytes) -> bytes:
    """The bytes of a request."""
    lines = (
        b"%s %s HTTP/1.1" % (b"POST" if body else b"GET", path.encode()),
        b"Host: localhost",
        b"Content-Length: %d" % len(body),
        *headers,
    )
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def served(app: Application) -> TestServer:
    server = TestServer(app)
    await server.start_server(access_log_class=QuietAccessLogger)
    assert server.handler is not None
    paths = fixed_paths(app.router.resources())
    server.handler.request_handler = around(server.handler.request_handler, paths)
    return server


def connections(server: TestServer) -> list[RequestHandler]:
    assert server.handler is not None
    return list(server.handler.connections)


def asked(server: TestServer) -> int:
    """How many requests have come."""
    assert server.handler is not None
    return server.handler.requests_count


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 — aiohttp tells of connections by no event
        await asyncio.sleep(0)


def connected(server: TestServer) -> socket.socket:
    return socket.create_connection((server.host, server.port))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """All that is worse than INFO."""
    return [each.getMessage() for each in caplog.records if each.levelno > logging.INFO]


def access(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The statuses in the access log."""
    found = [each for each in caplog.records if each.name == "aiohttp.access"]
    return [each.args[2] for each in found if isinstance(each.args, tuple)]  # type: ignore[misc]


def departures(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records]
    return [each for each in found if each.startswith("the client of ")]


def exchanges_of(engine: FakeEngine) -> list[HttpExchange]:
    return [each for answered in engine.answered for each in answered.exchanges]


@pytest.mark.parametrize(
    "body", [WHOLE, STREAMED, TWO], ids=["whole", "streamed", "two prompts"]
)
async def test_every_moment_to_leave_is_the_same(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """
    However many turns of the loop after the news a connection begins to close, the
    request is answered or a 499, in the log and for the observers, and nothing else.
    """
    caplog.set_level(logging.INFO)
    statuses = []

    for moment in range(MOMENTS):
        engine = FakeEngine(["x", "y", "z"])
        engine.gate.clear()
        server = await served(create_app(engine, ServerSettings()))
        with connected(server) as client:
            client.sendall(asking("/v1/completions", body))
            await engine.submitted.wait()
            (connection,) = connections(server)
            engine.gate.set()
            await turns(moment)
            assert connection.transport is not None
            connection.transport.close()  # what the loop does when it reads an end
            await until(lambda: not connections(server))  # noqa: B023
            await server.close()
        statuses += [each.status for each in exchanges_of(engine)]
        assert all(each.is_over or each.aborted.is_set() for each in engine.streams)

    assert not errors(caplog)
    assert set(statuses) == {200, 499}
    assert statuses == access(caplog)
    assert len(departures(caplog)) == statuses.count(499)


@pytest.mark.parametrize(
    ("sent", "quiet"),
    [
        (asking("/v1/completions", WHOLE), False),
        (asking("/v1/completions", STREAMED), False),
        (asking("/v1/completions", WHOLE)[:-5], False),
        (asking("/v1/completions", b"{"), False),
        (asking("/v1/completions", WHOLE, b"Expect: 100-continue"), False),
        (asking("/v1/models"), False),
        (asking("/nope"), False),
        (asking("/health"), True),
        (asking("/metrics"), True),
        (asking("/broken"), False),
    ],
    ids=[
        "whole",
        "streamed",
        "half a body",
        "error",
        "asks to go on",
        "list",
        "no route",
        "probe",
        "page",
        "broken page",
    ],
)
async def test_leaving_at_once_is_not_an_error(
    sent: bytes, quiet: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A request whose end of the connection comes with it is a 499, whatever it asks.
    """
    caplog.set_level(logging.INFO)
    engine = FakeEngine()
    engine.gate.clear()
    engine.pages["/metrics"] = lambda _: PageResponse(body=b"x", content_type="a/b")
    engine.pages["/broken"] = lambda _: PageResponse(
        body=b"x", content_type="a/b", status=500
    )
    server = await served(create_app(engine, ServerSettings()))

    with connected(server) as client:
        client.sendall(sent)
    await until(lambda: asked(server) and not connections(server))
    await server.close()

    assert not errors(caplog)
    assert access(caplog) == ([] if quiet else [499])
    assert {each.status for each in exchanges_of(engine)} <= {499}
    assert [each.cause for each in engine.streams] in ([], ["client_disconnect"])
    assert len(departures(caplog)) <= 1


@pytest.mark.parametrize("headers", [(), (b"Expect: 100-continue",)])
async def test_leaving_while_the_model_loads_is_not_an_error(
    headers: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """
    The server that stands in while the model loads makes a 499 of it too.
    """
    caplog.set_level(logging.INFO)
    server = await served(
        create_loading_app(KeyRing(), BrowserGuard(("127.0.0.1",), CorsSettings()))
    )

    with connected(server) as client:
        client.sendall(asking("/v1/completions", WHOLE, *headers))
    await until(lambda: asked(server) and not connections(server))
    await server.close()

    assert not errors(caplog)
    assert access(caplog) == [499]


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (b"100-continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"),
        (b"more", b"HTTP/1.1 417 Expectation Failed\r\n"),
    ],
)
async def test_expect_continue_is_answered(expected: bytes, answer: bytes) -> None:
    """
    `Expect: 100-continue` gets 100 Continue; other expectations are refused.
    """
    app = create_app(FakeEngine(), ServerSettings())
    listening = listen("127.0.0.1", 0)
    async with sites([(app, listening)]):
        reader, writer = await asyncio.open_connection(*listening.getsockname())

        sent = asking("/v1/completions", WHOLE, b"Expect: " + expected)
        writer.write(sent)
        head = await reader.readexactly(len(answer))
        writer.close()

    assert head == answer


async def test_many_connection_resets_are_not_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    Clients that reset their streams leave a line each, and no request behind.
    """
    caplog.set_level(logging.INFO)
    engine = FakeEngine(["x"] * 50)
    engine.free_steps = 1
    server = await served(create_app(engine, ServerSettings()))

    for number in range(100):
        engine.gate.clear()
        with connected(server) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.sendall(asking("/v1/completions", STREAMED))
            await until(lambda: len(engine.streams) > number)  # noqa: B023
            engine.gate.set()
            await turns(number % 10)
        await until(lambda: not connections(server))
    await server.close()

    statuses = Counter(each.status for each in exchanges_of(engine))
    assert not errors(caplog)
    assert statuses.total() == 100
    assert set(statuses) <= {200, 499}
    assert all(each.is_over or each.aborted.is_set() for each in engine.streams)
    assert len(departures(caplog)) == statuses[499]
