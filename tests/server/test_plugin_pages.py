"""Pages of loggers: off the loop, bounded, and harmless when they fail."""

import asyncio
import threading

import pytest

from hookline.payloads import PageRequest, PageResponse
from hookline_server import pages
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
    assert request.headers["accept"] == "text/*"


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

    monkeypatch.setattr(pages, "TIMEOUT_SECONDS", 0.05)
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
