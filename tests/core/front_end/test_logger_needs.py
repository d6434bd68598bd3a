"""Loggers say what they need, and the log says what an engine does not tell them."""

import logging
from collections.abc import Collection
from dataclasses import replace

import pytest

from hookline import hookimpl
from hookline.config import EngineConfig, ObserverConfig
from hookline.events import ClockPair
from hookline.frontend.observation import Observers
from hookline.payloads import LoggerContext
from hookline.tells import Tells
from hookline_testing.payloads import FACTS

CLOCK = ClockPair(wall=0, monotonic=0)


class Needy:
    """A logger that shows steps and drafts."""

    def __init__(self, context: LoggerContext) -> None:
        del context

    @hookimpl
    def logger_needs(self) -> Collection[Tells]:
        return Tells.STEPS, Tells.DRAFTS


NAME = f"{__name__}:Needy"


def lines(caplog: pytest.LogCaptureFixture, *tells: Tells) -> list[str]:
    """What the log says at the start of two such engines."""
    config = EngineConfig(observers=ObserverConfig(stat_loggers=(NAME,)))
    observers = Observers(config)
    with caplog.at_level(logging.WARNING):
        for index in range(2):
            facts = replace(FACTS, engine_index=index, tells=tells)
            observers.started(facts, CLOCK)
    observers.close(5.0)
    return [record.getMessage() for record in caplog.records]


def test_a_logger_that_needs_more_is_told_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line names the logger and what it lacks, however many engines there are."""
    assert lines(caplog, Tells.STEPS) == [
        f"logger {NAME} lacks what engine 0 does not tell: drafts"
    ]


def test_a_logger_that_gets_all_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said where all is told."""
    assert lines(caplog, *Tells) == []
