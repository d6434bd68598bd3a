"""A logger gets what has happened before a page of its own is made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.frontend.observation import Observers
from hookline.payloads import RecordsLogged
from hookline_testing import PluginSite
from hookline_testing.collected_routes import CollectedRoutes

LOGGER = """
import threading

from hookline import hookimpl

free, entered = threading.Event(), threading.Event()
seen = []


@hookimpl
def records_logged(logged):
    entered.set()
    free.wait()
    seen.append(logged.missed)
"""
PATIENT = 1.0
"""Seconds; a page that hurries its logger takes no thousandth of that."""


@pytest.fixture
def observers(tmp_path: Path) -> Iterator[tuple[Observers, PluginSite]]:
    """A logger that takes its time until it is free."""
    with PluginSite(tmp_path) as site:
        site.install("paged", LOGGER)
        config = ObserverConfig(
            stat_loggers=("paged",), linger_seconds=1.0, page_wait_seconds=PATIENT
        )
        made = Observers(EngineConfig(observers=config))
        yield made, site
        site.module("paged").free.set()
        made.close(30.0)


def test_logger_has_what_was_told_before(
    observers: tuple[Observers, PluginSite],
) -> None:
    """Each of many times, though lanes linger; who knows more tells it first."""
    loggers, site = observers
    site.module("paged").free.set()
    told = iter(range(100))

    def tell(seconds: float) -> float:
        assert seconds == PATIENT
        loggers.records_logged(RecordsLogged(records=(), missed=next(told)))
        return 0.0

    loggers.add_routes(lambda _: CollectedRoutes(), tell)

    for number in range(20):
        assert loggers.settle("paged") == 0
        assert site.module("paged").seen == list(range(number + 1))


def test_stuck_logger_is_not_waited_for(
    observers: tuple[Observers, PluginSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far it is behind is known; so is whether somebody has more to tell."""
    loggers, site = observers
    monkeypatch.setattr(loggers, "_page_seconds", 0.0)
    loggers.add_routes(lambda _: CollectedRoutes())
    loggers.records_logged(RecordsLogged(records=(), missed=1))
    assert site.module("paged").entered.wait(30.0)

    assert loggers.settle("paged") > 0
    site.module("paged").free.set()
    assert loggers.flush(30.0)
    assert loggers.settle("paged") == 0
    loggers.tell_first = lambda _: 7.0

    assert loggers.settle("paged") == 7
