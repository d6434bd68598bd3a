"""A logger's streams of events: each made once for all, and slow viewers lose some."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress

import pytest
from aiohttp import ClientPayloadError, ClientResponse

from hookline import hookimpl
from hookline.pages import EventHandler, PageEvent, Routes
from hookline_server import page_events, page_streams
from hookline_server.page_events import COMMENT, Broadcast, Viewer, encoded
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

    def feed(self) -> Events:
        self.threads.append(threading.current_thread())
        try:
            yield from self._handler()
        finally:
            self.ended.set()


def engine_with(handler: EventHandler) -> tuple[FakeEngine, Feed]:
    engine, feed = FakeEngine(), Feed(handler)
    engine.loggers = [feed]
    return engine, feed


def ticking() -> Events:
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

    def count() -> Events:
        yield PageEvent(data="one", event="count", id="1")
        assert gate.wait(WAIT_SECONDS)
        yield PageEvent(data="two\nlines")

    engine, feed = engine_with(count)
    async with client_of(engine) as client:
        response = await client.get("/feed")
        first = await response.content.readuntil(b"\n\n")
        gate.set()
        rest = await response.read()

    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    assert first == b"event: count\nid: 1\ndata: one\n\n"
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


async def test_viewers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Clients beyond the limit get a 503; the API goes on, and a free place is used again.
    """
    monkeypatch.setattr(page_streams, "MAX_VIEWERS", 2)
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
        async with asyncio.timeout(WAIT_SECONDS):
            while (await client.get("/feed")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert len(feed.threads) == 1


async def test_all_viewers_get_one_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Two hundred viewers have one thread, and what one event costs is paid once.
    """
    encodings, is_full = 0, threading.Event()

    def encode(event: PageEvent | None) -> bytes:
        nonlocal encodings
        encodings += 1
        return encoded(event)

    def numbers() -> Events:
        yield PageEvent(data="0")
        while not is_full.is_set():
            yield None
        for number in range(1, 4):
            yield PageEvent(data=str(number))

    monkeypatch.setattr(page_events, "encoded", encode)
    monkeypatch.setattr(page_events, "LEAST_SECONDS", 0.01)
    broadcast = Broadcast(numbers)
    viewers = [broadcast.join()]
    assert await viewers[0].next() == b"data: 0\n\n"
    viewers += [broadcast.join() for _ in range(199)]
    is_full.set()
    seen = [[each async for each in _items_of(viewer)] for viewer in viewers]

    assert seen[0] == [b"data: %d\n\n" % number for number in (1, 2, 3)]
    assert seen[1:] == [[b"data: 0\n\n", *seen[0]]] * 199
    assert encodings < 200  # of the comments, too


async def _items_of(viewer: Viewer) -> AsyncIterator[bytes]:
    async with asyncio.timeout(WAIT_SECONDS):
        while (item := await viewer.next()) is not None:
            assert isinstance(item, bytes)
            if item != COMMENT:
                yield item


async def test_slow_viewers_lose_events() -> None:
    """
    Who does not read loses the oldest events, and is told how many with the next one.
    """
    viewer = Viewer()
    for number in range(page_events.MAX_WAITING + 10):
        viewer.put(encoded(PageEvent(data=str(number))))
    viewer.put(None)
    read = [item async for item in _items_of(viewer)]

    last = page_events.MAX_WAITING + 10
    assert read[0] == b"event: lost\ndata: 10\n\ndata: 10\n\n"
    assert read[1:] == [b"data: %d\n\n" % number for number in range(11, last)]


async def test_viewer_who_reads_nothing_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A client that stops reading delays nobody, and its place is free after a while.
    """
    monkeypatch.setattr(page_streams, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(page_events, "LEAST_SECONDS", 0.0)

    def flood() -> Events:
        while True:
            yield PageEvent(data="x" * 500_000)

    engine, feed = engine_with(flood)
    async with client_of(engine) as client:
        response = await client.get("/feed")  # and no more is read

        await until(feed.ended.is_set)
        response.close()


def _raises() -> Events:
    raise ValueError("boom")
    yield None


def _yields_text() -> Iterator[str]:
    yield "text"


def _is_no_generator() -> list[PageEvent]:
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

    def breaks() -> Events:
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

    def hangs() -> Events:
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
