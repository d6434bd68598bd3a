"""Pages of loggers: off the loop, bounded, and harmless when they fail."""

import asyncio
import gzip
import threading
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline import hookimpl
from hookline.pages import PageRequest, PageResponse, Routes
from hookline.payloads import PageStats
from hookline_registry import BrokenPluginError
from hookline_server import page_rendering
from hookline_server.app import create_app
from hookline_server.pages_app import PAGES_APP
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of


async def test_page_runs_in_a_thread() -> None:
    """
    A page sees headers and query, and runs outside of the event loop's thread.
    """
    seen: list[tuple[int, PageRequest]] = []

    def page(request: PageRequest) -> PageResponse:
        seen.append((threading.get_ident(), request))
        return PageResponse(body=b"x 1\n", content_type="text/plain; version=0.0.4")

    engine = FakeEngine()
    engine.pages["/metrics"] = page
    async with client_of(engine) as client:
        response = await client.get("/metrics?a=1&a=2", headers={"Accept": "text/*"})
        body = await response.read()

    ((thread, request),) = seen
    assert body == b"x 1\n"
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4"
    assert thread != threading.get_ident()
    assert request.query == {"a": "2"}
    assert request.query_values == {"a": ("1", "2")}
    assert request.headers["accept"] == "text/*"


async def test_page_gets_the_parameters_of_its_path() -> None:
    """
    Decoded, whatever a client writes there; beyond the page's own slash is no page.
    """
    seen: list[PageRequest] = []

    def page(request: PageRequest) -> PageResponse:
        seen.append(request)
        return PageResponse(body=b"", content_type="text/plain")

    engine = FakeEngine()
    engine.pages["/of/{id}"] = page
    async with client_of(engine) as client:
        await client.get("/of/a%2Fb%1B%20c")
        response = await client.get("/of/a/b")

    (request,) = seen
    assert request.path_values == {"id": "a/b\x1b c"}
    assert response.status == 404


async def test_pages_errors_are_its_own() -> None:
    """
    A page's own error response leaves as the page made it.
    """
    engine = FakeEngine()
    engine.pages["/own"] = lambda _: PageResponse(
        body=b"no", content_type="text/plain", status=404
    )
    async with client_of(engine) as client:
        response = await client.get("/own")

        assert response.status == 404
        assert await response.read() == b"no"


async def test_page_may_be_compressed() -> None:
    """
    A page's own headers are sent, so that a client can decode what the page has
    compressed.
    """
    engine = FakeEngine()
    engine.pages["/packed"] = lambda _: PageResponse(
        body=gzip.compress(b"x 1\n"),
        content_type="text/plain",
        headers={"Content-Encoding": "gzip", "Vary": "Accept-Encoding"},
    )
    async with client_of(engine) as client:
        response = await client.get("/packed")

        assert await response.read() == b"x 1\n"
        assert response.headers["Content-Type"] == "text/plain"
        assert response.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3)])
async def test_page_that_raises_is_a_500(error: BaseException) -> None:
    """
    A page that raises, whatever it raises, is a 500 in shape and hurts nothing else.
    """

    def page(_: PageRequest) -> PageResponse:
        raise error

    engine = FakeEngine()
    engine.pages["/broken"] = page
    async with client_of(engine) as client:
        broken = await client.get("/broken")
        healthy = await client.get("/health")

        assert (await broken.json())["error"]["code"] == "page_failed"
        assert (broken.status, healthy.status) == (500, 200)


async def test_page_that_hangs_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Pages that hang are answered for with 503 after a while; the API goes on.
    """
    release = threading.Event()

    def page(_: PageRequest) -> PageResponse:
        release.wait()
        return PageResponse(body=b"", content_type="text/plain")

    monkeypatch.setattr(page_rendering, "TIMEOUT_SECONDS", 0.05)
    engine = FakeEngine()
    engine.pages["/hangs"] = page
    async with client_of(engine) as client:
        hung = await asyncio.gather(*(client.get("/hangs") for _ in range(4)))
        body = {"model": "fake", "prompt": "a"}
        answer = await client.post("/v1/completions", json=body)
        release.set()

    assert {response.status for response in hung} == {503}
    assert answer.status == 200


async def test_pages_cannot_take_a_route_of_the_api() -> None:
    """
    A page on a path that is served already is an error at the start.
    """
    engine = FakeEngine()
    engine.pages["/health"] = lambda _: PageResponse(body=b"", content_type="x/y")

    with pytest.raises(ValueError, match="/health is served already"):
        async with client_of(engine):
            pass


class Notes:
    """A logger that keeps what is posted to it."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get("/notes", self.show)
        routes.post("/notes", self.keep)

    def show(self, request: PageRequest) -> PageResponse:
        assert request.body == b""
        return PageResponse(body=b",".join(self.kept), content_type="text/plain")

    def keep(self, request: PageRequest) -> PageResponse:
        assert threading.current_thread() is not threading.main_thread()
        self.kept.append(request.body)
        return PageResponse(body=b"kept", content_type="text/plain", status=201)


async def test_logger_takes_post() -> None:
    """
    A logger serves GET and POST at one path; a POST brings its decoded body.
    """
    engine = FakeEngine()
    engine.loggers = [Notes()]
    async with client_of(engine) as client:
        posted = await client.post("/notes", data=b"one")
        headers = {"Content-Encoding": "gzip"}
        packed = gzip.compress(b"two")
        encoded = await client.post("/notes", data=packed, headers=headers)
        shown = await client.get("/notes")

        assert (posted.status, encoded.status) == (201, 201)
        assert await shown.read() == b"one,two"
        assert (await client.put("/notes", data=b"x")).status == 405


async def test_posted_body_is_bounded() -> None:
    """
    A body beyond the limit is a 413, on the pages' own port, too, and not kept.
    """
    notes = Notes()
    engine = FakeEngine()
    engine.loggers = [notes]
    settings = ServerSettings(max_body_bytes=1000, metrics_port=0)
    app = create_app(engine, settings)

    async with (
        TestClient(TestServer(app)),
        TestClient(TestServer(app[PAGES_APP])) as pages,
    ):
        refused = await pages.post("/notes", data=b"x" * 1001)
        taken = await pages.post("/notes", data=b"x" * 1000)

        assert (refused.status, taken.status) == (413, 201)
        assert (await refused.json())["error"]["code"] == "body_too_large"
    assert [len(note) for note in notes.kept] == [1000]


async def test_pages_of_two_loggers_cannot_share_a_path() -> None:
    """
    A second logger with the same path and method ends the start with its name.
    """
    engine = FakeEngine()
    engine.loggers = [Notes(), Notes()]

    with pytest.raises(BrokenPluginError, match=r"logger 1.*/notes is served already"):
        async with client_of(engine):
            pass


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("text", "a page returns a PageResponse, not str"),
        (None, "a page returns a PageResponse, not NoneType"),
        (
            PageResponse(body="text", content_type="text/plain"),  # type: ignore[arg-type]
            "PageResponse.body is bytes, not str; encode text first",
        ),
    ],
)
async def test_page_that_is_not_bytes_is_a_clear_error(
    made: PageResponse, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A page that returns text is a 500 with the remedy, also in the log.
    """
    engine = FakeEngine()
    engine.pages["/text"] = lambda _: made
    async with client_of(engine) as client:
        response = await client.get("/text")
        error = (await response.json())["error"]

    assert response.status == 500
    assert error["code"] == "page_failed"
    assert message in error["message"]
    assert message in caplog.text


class HangingPage:
    """A logger whose page returns only when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked = threading.Semaphore(0)

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.get("/hangs", self.page)

    def page(self, _: PageRequest) -> PageResponse:
        self.asked.release()
        self.released.wait()
        return PageResponse(body=b"late", content_type="text/plain")


async def until_hung(engine: FakeEngine, client: TestClient[Any, Any]) -> PageStats:
    """Waits until all threads of the first logger are reported as hung."""
    while True:
        await client.get("/health")
        engine.reported.clear()
        await engine.reported.wait()
        found = {each.logger: each for each in engine.answered[-1].pages}
        if found["logger 0"].hung == page_rendering.MAX_THREADS:
            return found["logger 0"]


async def test_hung_pages_leave_the_threads_of_other_loggers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Once a logger's pages hang, they fail at once and by name; another's are served.
    """
    monkeypatch.setattr(page_rendering, "TIMEOUT_SECONDS", 0.05)
    hanging, notes = HangingPage(), Notes()
    engine = FakeEngine()
    engine.loggers = [hanging, notes]
    async with client_of(engine) as client:
        await asyncio.gather(*(client.get("/hangs") for _ in range(4)))
        counted = await until_hung(engine, client)
        refused = await client.get("/hangs")
        other = await client.post("/notes", data=b"kept")
        hanging.released.set()

        assert refused.status == 503
        assert "'logger 0'" in (await refused.json())["error"]["message"]
        assert counted.timed_out == 4
        assert other.status == 201
        assert notes.kept == [b"kept"]


async def test_pages_whose_clients_left_count_as_hung(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A page hangs after its timeout also if its client did not wait; it may recover.
    """
    monkeypatch.setattr(page_rendering, "TIMEOUT_SECONDS", 0.2)
    hanging = HangingPage()
    engine = FakeEngine()
    engine.loggers = [hanging]
    async with client_of(engine) as client:
        for _ in range(page_rendering.MAX_THREADS):
            waiting = asyncio.ensure_future(client.get("/hangs"))
            await asyncio.to_thread(hanging.asked.acquire)
            waiting.cancel()
        await until_hung(engine, client)
        hanging.released.set()
        page = await client.get("/hangs")
        while page.status == 503:
            page = await client.get("/hangs")

        assert await page.read() == b"late"
