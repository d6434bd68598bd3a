"""Observers of a front end: told of everything, and closed twice."""

from typing import cast

from hookline.config import EngineConfig
from hookline.events import ClockPair
from hookline.frontend.observing import ObserverContext, Observing
from hookline_registry import Failure, LaneStats
from hookline_testing.conformance.subject import Subject
from hookline_testing.payloads import FACTS


def check(subject: Subject) -> None:
    """Starts, tells of an engine, and closes."""
    made = subject.create(context=ObserverContext(config=EngineConfig()))
    if made is None or not subject.has(made, Observing):
        return
    observers = cast("Observing", made)
    kind = type(made)
    subject.typed(observers.is_listening, bool, "is_listening", kind)
    for each in observers.lanes:
        subject.typed(each, LaneStats, "lanes", kind)
    clock = ClockPair(wall=0, monotonic=0)
    subject.call("started", observers.started, FACTS, clock)
    subject.call("failed", observers.failed, 0, "killed by signal 9", 1)
    subject.call("stopped", observers.stopped, 0, "closed")
    for name, method in (
        ("flush", observers.flush),
        ("close", observers.close),
        ("close, called again,", observers.close),
    ):
        done = subject.call(name, method, 5.0)
        if not isinstance(done, Failure):
            subject.typed(done, bool, f"what {name} returned", kind)
