"""The server's reports of answered requests."""

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hookline.pages import PageResponse
from hookline.payloads import HttpExchange
from hookline_server import http_meter
from hookline_server.http_meter import HttpMeter
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "ab"}


def exchanges(engine: FakeEngine) -> list[HttpExchange]:
    return [each for answered in engine.answered for each in answered.exchanges]


async def metered(
    method: str, path: str, **options: object
) -> tuple[HttpExchange, bytes]:
    """Returns the report of one request, and the body that the client received."""
    engine = FakeEngine()
    async with client_of(engine) as client:
        response = await client.request(method, path, **options)  # type: ignore[arg-type]
        body = await response.read()
    (exchange,) = exchanges(engine)
    assert exchange.status == response.status
    return exchange, body


@pytest.mark.parametrize(
    ("method", "path", "route", "told"),
    [
        ("GET", "/health", "/health", "GET"),
        ("GET", "/v1/models/fake", "/v1/models/{model}", "GET"),
        ("GET", "/v1/models/org/other", "/v1/models/{model}", "GET"),
        ("GET", "/secret-of-a-client", "unmatched", "GET"),
        ("DELETE", "/health", "unmatched", "DELETE"),
        ("PROPFIND", "/health", "unmatched", "OTHER"),
        ("HEAD", "/version", "/version", "HEAD"),
    ],
)
async def test_requests_are_counted_by_route_template(
    method: str, path: str, route: str, told: str
) -> None:
    """
    Route and method have few values, whatever clients ask for.
    """
    exchange, _ = await metered(method, path)

    assert (exchange.route, exchange.method) == (route, told)


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/v1/completions", {"json": BODY}),
        ("POST", "/v1/completions", {"json": {**BODY, "stream": True}}),
        ("POST", "/v1/completions", {"data": b"{"}),
        ("GET", "/nope", {}),
        ("PUT", "/health", {"data": b"abc"}),
        ("HEAD", "/version", {}),
    ],
    ids=["whole", "streamed", "refused", "unknown", "wrong method", "head"],
)
async def test_bodies_are_measured(
    method: str, path: str, options: dict[str, object]
) -> None:
    """
    The response's bytes are those of the body that the client gets, streamed or not.
    """
    exchange, body = await metered(method, path, **options)

    assert exchange.response_bytes == len(body)
    assert exchange.seconds > 0


async def test_request_bodies_are_measured() -> None:
    """
    The request's bytes are those of its body, also where it comes in chunks.
    """

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"model": "fake", '
        yield b'"prompt": "ab"}'

    whole, _ = await metered("POST", "/v1/completions", data=b'{"a": 1}')
    chunked, _ = await metered("POST", "/v1/completions", data=pieces())
    empty, _ = await metered("GET", "/health")

    assert whole.request_bytes == 8
    assert (chunked.request_bytes, chunked.status) == (33, 200)
    assert empty.request_bytes == 0


async def test_time_ends_with_the_last_byte() -> None:
    """
    A stream is in flight, and not reported, until its last event was sent.
    """
    engine = FakeEngine(["x", "y"])
    engine.gate.clear()
    engine.free_steps = 1

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json={**BODY, "stream": True})
        await engine.reported.wait()
        engine.reported.clear()
        (during,) = engine.answered
        engine.gate.set()
        await response.read()
        await engine.reported.wait()
        after = engine.answered[1]

    assert during.in_flight == {("/v1/completions", "POST"): 1}
    assert not during.exchanges
    assert after.in_flight == {}
    assert [each.status for each in after.exchanges] == [200]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_client_that_leaves_is_a_499(is_streamed: bool) -> None:
    """
    A request whose client disconnected is reported with status 499.
    """
    engine = FakeEngine(["x", "y"])
    engine.gate.clear()
    engine.free_steps = int(is_streamed)

    async with client_of(engine) as client:
        asking = asyncio.create_task(
            client.session.post(
                client.make_url("/v1/completions"), json={**BODY, "stream": is_streamed}
            )
        )
        await engine.submitted.wait()
        if is_streamed:
            response = await asking
            await response.content.readuntil(b"\n\n")
            response.close()
        else:
            asking.cancel()
        await engine.streams[0].aborted.wait()

    (exchange,) = exchanges(engine)
    assert exchange.status == 499
    assert (exchange.response_bytes > 0) == is_streamed
    assert engine.answered[-1].in_flight == {}


async def test_unforeseen_errors_are_reported() -> None:
    """
    A handler's unexpected exception is reported as a 500.
    """
    engine = FakeEngine()

    async def broken(_: web.Request) -> web.Response:
        raise LookupError

    meter = HttpMeter(engine)
    app = web.Application(middlewares=[meter.middleware])
    app.cleanup_ctx.append(meter.lifetime)
    app.router.add_get("/broken", broken)
    async with TestClient(TestServer(app)) as client:
        await client.get("/broken")

    (exchange,) = exchanges(engine)
    assert (exchange.route, exchange.status) == ("/broken", 500)


async def test_pages_are_metered_too() -> None:
    """
    Loggers' pages and probes are requests like any other.
    """
    engine = FakeEngine()
    engine.pages["/metrics"] = lambda _: PageResponse(body=b"x", content_type="a/b")
    async with client_of(engine) as client:
        await client.get("/metrics")
        await client.get("/health/live")

    routes = [each.route for each in exchanges(engine)]
    assert routes == ["/metrics", "/health/live"]


async def test_excess_reports_are_only_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Exchanges beyond the bound are only counted, later ones reported in full.
    """
    monkeypatch.setattr(http_meter, "MOST_EXCHANGES", 2)
    monkeypatch.setattr(http_meter, "FLUSH_SECONDS", 1000)
    engine = FakeEngine()

    async with client_of(engine) as client:
        for _ in range(5):
            await client.get("/health")

    (answered,) = engine.answered
    assert (len(answered.exchanges), answered.missed) == (2, 3)


async def test_idle_server_reports_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Each exchange is reported once; a server without requests reports nothing.
    """
    monkeypatch.setattr(http_meter, "FLUSH_SECONDS", 0)
    engine = FakeEngine()

    async with client_of(engine) as client:
        await client.get("/health")
        for _ in range(100):
            await asyncio.sleep(0)
        told = len(engine.answered)
        for _ in range(100):
            await asyncio.sleep(0)

    assert len(exchanges(engine)) == 1
    assert len(engine.answered) == told


async def test_without_listeners_nothing_is_measured() -> None:
    """
    Where no logger wants to hear of requests, there is no middleware for it.
    """
    engine = FakeEngine()
    engine.needs_http = False

    async with client_of(engine) as client:
        metered = len(client.app.middlewares) if client.app else None
        response = await client.get("/health")
    engine.needs_http = True
    async with client_of(engine) as client:
        assert client.app is not None
        assert len(client.app.middlewares) - 1 == metered

    assert response.status == 200
    assert not exchanges(engine)


async def test_client_that_is_slow_is_waited_for() -> None:
    """
    A response is reported when it was sent, not when it was created.
    """
    engine = FakeEngine(["x" * 30_000_000])
    async with client_of(engine) as client:
        response = await client.session.post(
            client.make_url("/v1/completions"),
            json=BODY,
            timeout=aiohttp.ClientTimeout(30),
        )
        await engine.reported.wait()
        during = engine.answered[0]
        body = await response.read()

    (exchange,) = exchanges(engine)
    assert during.in_flight == {("/v1/completions", "POST"): 1}
    assert exchange.response_bytes == len(body) > 30_000_000


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_requests_for_the_engine_tell_whose_they_are(is_streamed: bool) -> None:
    """
    With the client's id, their begin, and what came before their first byte.
    """
    body = {**BODY, "stream": is_streamed}
    before = time.time_ns()
    exchange, _ = await metered(
        "POST", "/v1/completions", json=body, headers={"X-Request-Id": "mine"}
    )

    assert exchange.client_id == "mine"
    assert before <= exchange.begun <= time.time_ns()
    assert exchange.first_byte_seconds is not None
    assert 0 < exchange.first_byte_seconds <= exchange.seconds
    assert 0 < exchange.unread_seconds < exchange.seconds


async def test_other_requests_are_nobodys() -> None:
    """
    Probes and refused bodies have no id, whatever their clients send.
    """
    exchange, _ = await metered("GET", "/health", headers={"X-Request-Id": "mine"})

    assert exchange.client_id == ""
