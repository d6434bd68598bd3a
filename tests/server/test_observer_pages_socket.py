"""The socket of the loggers' pages in an observer process, removed by a cleaner."""

import shutil
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from hookline.frontend.observation import Observers
from hookline.pages import PageRequest, PageResponse, Routes
from hookline_server import observer_pages
from hookline_server.observer_pages import ObserverPages
from hookline_testing.waiting import wait_until


class OnePage:
    """Stands for the loggers: one of them has a page."""

    def add_routes(self, routes_of: Callable[[str], Routes]) -> None:
        def page(asked: PageRequest) -> PageResponse:
            body = b"x 1\n" if asked.behind_seconds == 0.5 else b"not asked first"
            return PageResponse(body=body, content_type="text/plain")

        routes_of("one").get("/one", page)

    def settle(self, logger: str) -> float:
        assert logger == "one"
        return 0.5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the socket on which the page is served."""
    monkeypatch.setattr(observer_pages, "LOOK_SECONDS", 0.01)
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    pages = ObserverPages(cast("Observers", OnePage()), str(folder / "pages.sock"))
    yield folder
    pages.close()


async def fetched(path: Path) -> bytes:
    connector = aiohttp.UnixConnector(str(path))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get("http://observer/one") as response,
    ):
        return await response.read()


def accepts(path: Path) -> bool:
    """Whether it is listened to, which is a moment after the file is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


async def test_a_removed_socket_is_there_again(folder: Path) -> None:
    """
    Servers reach the pages after their folder was removed as before.
    """
    path = folder / "pages.sock"
    before = await fetched(path)
    shutil.rmtree(folder)

    wait_until(partial(accepts, path), "nobody makes it again")

    assert await fetched(path) == before == b"x 1\n"
