"""A logger's page is made once the logger has got what has happened."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.frontend.observation import Observers
from hookline.pages import PageRequest
from hookline.payloads import RecordsLogged
from hookline_testing import PluginSite
from hookline_testing.collected_routes import CollectedRoutes

LOGGER = """
import threading
from pathlib import Path

from hookline import hookimpl

free, entered = threading.Event(), threading.Event()
seen, behind = [], []


class Paged:
    @hookimpl
    def records_logged(self, logged):
        entered.set()
        free.wait()
        seen.append(logged.missed)

    @hookimpl
    def add_routes(self, routes):
        for add in (routes.get, routes.post):
            add("/page", lambda asked: (list(seen), asked.behind_seconds))
        routes.events("/events", iter)
        routes.files("/files", Path("folder"))


@hookimpl
def create_stat_logger(context):
    return Paged()
"""
PATIENT = 1.0
"""Seconds; a page that hurries its logger takes no thousandth of that."""


@pytest.fixture
def observers(tmp_path: Path) -> Iterator[tuple[Observers, PluginSite]]:
    """Loggers of which one has pages, and takes its time if it is not free."""
    with PluginSite(tmp_path) as site:
        site.install("paged", LOGGER)
        config = ObserverConfig(
            stat_loggers=("paged",), linger_seconds=1.0, page_wait_seconds=PATIENT
        )
        made = Observers(EngineConfig(observers=config))
        yield made, site
        site.module("paged").free.set()
        made.close(30.0)


def asked(made: CollectedRoutes) -> list[Any]:
    request = PageRequest(headers={}, query={})
    return [each["/page"](request) for each in (made.pages, made.posts)]


def test_page_has_what_was_told_before(
    observers: tuple[Observers, PluginSite],
) -> None:
    """Each page after each of many calls, though lanes linger, and who knows more tells
    it first; pages that a logger streams or reads from files are as they were."""
    loggers, site = observers
    site.module("paged").free.set()
    told = iter(range(100))

    def tell(seconds: float) -> float:
        assert seconds == PATIENT
        loggers.records_logged(RecordsLogged(records=(), missed=next(told)))
        return 0.0

    routes = CollectedRoutes()
    loggers.add_routes(lambda _: routes, tell)

    found = [page for _ in range(10) for page in asked(routes)]

    assert found == [(list(range(n + 1)), 0.0) for n in range(20)]
    assert routes.streams == {"/events": iter}
    assert routes.folders == {"/files": Path("folder")}


def test_page_of_a_stuck_logger_says_how_old_it_is(
    observers: tuple[Observers, PluginSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes, with what the logger had; so does one of which somebody is silent."""
    loggers, site = observers
    monkeypatch.setattr(loggers, "_page_seconds", 0.0)
    routes = CollectedRoutes()
    loggers.add_routes(lambda _: routes)
    loggers.records_logged(RecordsLogged(records=(), missed=1))
    assert site.module("paged").entered.wait(30.0)

    pages = asked(routes)
    site.module("paged").free.set()
    assert loggers.flush(30.0)
    loggers.tell_first = lambda _: 7.0
    [*_, silent] = asked(routes)

    assert all(seen == [] and behind > 0 for seen, behind in pages)
    assert silent == ([1], 7.0)
