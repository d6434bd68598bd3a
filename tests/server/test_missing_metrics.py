"""Where `/metrics` is not served, the server says what to do about it."""

from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline import hookimpl
from hookline.pages import PageResponse, Routes
from hookline_server.app import create_app
from hookline_server.cli.commands.banner import banner
from hookline_server.pages_app import PAGES_APP
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

OWN_PORT = ServerSettings(metrics_port=0)


class Site:
    """A logger that serves a folder at every path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.files("/", self._folder)


def engine_with_metrics() -> FakeEngine:
    engine = FakeEngine()
    engine.pages["/metrics"] = lambda _: PageResponse(body=b"x 1\n", content_type="a/b")
    return engine


def shown(engine: FakeEngine) -> str:
    """What the server prints when it is ready."""
    app = create_app(engine, ServerSettings())
    return banner(app, root="http://a", pages_root="http://a", seconds=1.0)


@pytest.mark.parametrize("settings", [ServerSettings(), OWN_PORT])
async def test_missing_page_names_the_option(settings: ServerSettings) -> None:
    """
    Without a logger that serves it, the 404 says which option adds one.
    """
    app = create_app(FakeEngine(), settings)

    async with (
        TestClient(TestServer(app)) as api,
        TestClient(TestServer(app[PAGES_APP])) as pages,
    ):
        for client in (api, pages):
            response = await client.get("/metrics")
            error = (await response.json())["error"]

            assert (response.status, error["code"]) == (404, "route_not_found")
            assert "add --stat-logger prometheus" in error["message"]


async def test_page_on_its_own_port_is_missed_with_a_hint() -> None:
    """
    If pages have their own port, the API's 404 says so.
    """
    async with client_of(engine_with_metrics(), OWN_PORT) as client:
        response = await client.get("/metrics")
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (404, "route_not_found")
    assert "--metrics-port" in error["message"]
    assert "--stat-logger" not in error["message"]


async def test_hint_is_for_those_who_may_read_metrics() -> None:
    """
    The token of the pages, and nothing less, leads to the hint.
    """
    settings = ServerSettings(metrics_token="t" * 20)

    async with client_of(FakeEngine(), settings) as client:
        refused = await client.get("/metrics")
        headers = {"Authorization": "Bearer " + "t" * 20}
        hinted = await client.get("/metrics", headers=headers)

    assert (refused.status, hinted.status) == (401, 404)


async def test_files_at_every_path_are_not_hidden(tmp_path: Path) -> None:
    """
    A logger that serves a folder as the whole site can have a file of that name.
    """
    (tmp_path / "metrics").write_text("mine")
    engine = FakeEngine()
    engine.loggers = [Site(tmp_path)]

    async with client_of(engine) as client:
        response = await client.get("/metrics")

        assert await response.text() == "mine"


def test_banner_names_the_page_or_the_option() -> None:
    """
    The banner has the page's URL, or says how to add the page.
    """
    with_page, without = shown(engine_with_metrics()), shown(FakeEngine())

    assert "  metrics  http://a/metrics\n" in with_page
    assert "--stat-logger" not in with_page
    assert "  metrics  not served; add --stat-logger prometheus\n" in without
