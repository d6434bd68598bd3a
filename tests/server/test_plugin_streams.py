"""A logger's server-sent events: bounded, and ended with the client or the server."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import pytest
from aiohttp import ClientPayloadError, ClientResponse

from hookline import hookimpl
from hookline.pages import EventHandler, PageEvent, PageRequest, Routes
from hookline_server import page_events, page_streams
from hookline_server.page_events import encoded
from hookline_testing.own_time import Stopwatch
from hookline_testing.scripted_server import FakeEngine, client_of

Events = Generator[PageEvent | None, None, None]
WAIT_SECONDS = 60.0


class Feed:
    """A logger that streams what a function yields, and notes when that has ended."""

    def __init__(self, handler: EventHandler) -> None:
        self._handler = handler
        self.threads: list[threading.Thread] = []
        self.ended = threading.Event()

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.events("/feed", self.feed)

    def feed(self, request: PageRequest) -> Events:
        self.threads.append(threading.current_thread())
        try:
            yield from self._handler(request)
        finally:
            self.ended.set()


def engine_with(handler: EventHandler) -> tuple[FakeEngine, Feed]:
    engine, feed = FakeEngine(), Feed(handler)
    engine.loggers = [feed]
    return engine, feed


def ticking(_: PageRequest) -> Events:
    """Never ends by itself."""
    while True:
        yield None
        time.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110 - threads change it
            await asyncio.sleep(0.01)


async def test_events_are_streamed() -> None:
    """
    Each event arrives when it is yielded, from a thread that is not the event loop's.
    """
    gate = threading.Event()

    def count(request: PageRequest) -> Events:
        yield PageEvent(data=request.query["from"], event="count", id="1")
        assert gate.wait(WAIT_SECONDS)
        yield PageEvent(data="two\nlines")

    engine, feed = engine_with(count)
    async with client_of(engine) as client:
        response = await client.get("/feed?from=7")
        first = await response.content.readuntil(b"\n\n")
        gate.set()
        rest = await response.read()

    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    assert first == b"event: count\nid: 1\ndata: 7\n\n"
    assert rest == b"data: two\ndata: lines\n\n"
    assert feed.threads[0] is not threading.main_thread()


async def test_stream_ends_when_the_client_leaves() -> None:
    """
    The generator is closed soon after its client has left, and its place is free.
    """
    engine, feed = engine_with(ticking)
    async with client_of(engine) as client:
        response = await client.get("/feed")
        await response.content.readuntil(b"\n\n")
        response.close()

        await until(feed.ended.is_set)
        await until(lambda: not feed.threads[0].is_alive())


async def test_streams_end_with_the_server() -> None:
    """
    A shutdown ends open streams at once; it does not wait for their clients.
    """
    engine, feed = engine_with(ticking)
    async with client_of(engine) as client:
        response = await client.get("/feed")
        await response.content.readuntil(b"\n\n")
        reading = asyncio.create_task(_read_all(response))
        stopwatch = Stopwatch()
        await client.server.close()
        await reading

        took = stopwatch.took()

    assert took.own_seconds < 5
    await until(feed.ended.is_set)


async def _read_all(response: ClientResponse) -> None:
    with suppress(ClientPayloadError):
        await response.read()


async def test_open_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Clients beyond the limit get a 503; the API goes on, and a free place is used again.
    """
    monkeypatch.setattr(page_streams, "MAX_STREAMS", 2)
    engine, feed = engine_with(ticking)
    async with client_of(engine) as client:
        opened = [await client.get("/feed") for _ in range(2)]
        refused = await client.get("/feed")
        answer = await client.post(
            "/v1/completions", json={"model": "fake", "prompt": "a"}
        )

        assert refused.status == 503
        assert (await refused.json())["error"]["code"] == "pages_busy"
        assert answer.status == 200

        opened[0].close()
        await until(lambda: not all(each.is_alive() for each in feed.threads))
        assert (await client.get("/feed")).status == 200


async def test_slow_clients_hold_their_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A handler is not run further than the queue holds while its client reads nothing.
    """
    monkeypatch.setattr(page_events, "MAX_QUEUED", 4)
    yielded = 0

    def flood(_: PageRequest) -> Events:
        nonlocal yielded
        while True:
            yielded += 1
            yield PageEvent(data="x" * 500_000)

    engine, feed = engine_with(flood)
    async with client_of(engine) as client:
        response = await client.get("/feed")
        before = -1
        while before != yielded:  # until sockets and queue are full
            before = yielded
            await asyncio.sleep(0.3)
        assert yielded < 100
        response.close()

        await until(feed.ended.is_set)


def _raises(_: PageRequest) -> Events:
    raise ValueError("boom")
    yield None


def _yields_text(_: PageRequest) -> Iterator[str]:
    yield "text"


def _is_no_generator(_: PageRequest) -> list[PageEvent]:
    return [PageEvent(data="x")]


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (_raises, "boom"),
        (_yields_text, "handlers yield PageEvent or None, not str"),
        (_is_no_generator, "a handler is a generator function, not list"),
    ],
)
async def test_stream_that_fails_at_once_is_a_500(
    handler: EventHandler, message: str
) -> None:
    """
    A handler that fails before its first event has an error in OpenAI's shape.
    """
    engine = FakeEngine()
    engine.loggers = [RawFeed(handler)]
    async with client_of(engine) as client:
        response = await client.get("/feed")
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (500, "page_failed")
    assert message in error["message"]


class RawFeed:
    """A logger that registers a handler as it is."""

    def __init__(self, handler: EventHandler) -> None:
        self._handler = handler

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.events("/feed", self._handler)


async def test_stream_that_fails_later_ends(caplog: pytest.LogCaptureFixture) -> None:
    """
    After the first event a failure ends the stream and stands in the log.
    """

    def breaks(_: PageRequest) -> Events:
        yield PageEvent(data="x")
        raise ValueError("boom")

    engine, feed = engine_with(breaks)
    async with client_of(engine) as client:
        body = await (await client.get("/feed")).read()

    assert body == b"data: x\n\n"
    assert "the page /feed failed" in caplog.text
    assert feed.ended.is_set()


async def test_stream_without_a_first_event_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A handler that hangs before its first event is a 503 after a while.
    """
    monkeypatch.setattr(page_streams, "FIRST_SECONDS", 0.05)
    release = threading.Event()

    def hangs(_: PageRequest) -> Events:
        release.wait(WAIT_SECONDS)
        yield None

    engine, feed = engine_with(hangs)
    async with client_of(engine) as client:
        response = await client.get("/feed")
        error = (await response.json())["error"]
        release.set()

        assert (response.status, error["code"]) == (503, "page_timeout")
        await until(feed.ended.is_set)


@pytest.mark.parametrize(
    "event",
    [
        PageEvent(data="x", event="a\nb"),
        PageEvent(data="x", id="a\rb"),
        PageEvent(data="x", id="a\0"),
        PageEvent(data="x" * (page_events.MAX_EVENT_BYTES + 1)),
    ],
)
def test_malformed_events_are_refused(event: PageEvent) -> None:
    """
    Names and ids are single lines, and an event has a bounded size.
    """
    with pytest.raises(ValueError, match=r"the event's|at most"):
        encoded(event)
