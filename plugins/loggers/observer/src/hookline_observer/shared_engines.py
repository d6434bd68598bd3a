"""Engines of which each of several front ends tells its own part."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hookline.events import StepOutput
from hookline.frozen import plain
from hookline.sections import Section
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_metrics.balanced_state import balanced
from hookline_observer.messages import Started


class FrontEnds(msgspec.Struct, frozen=True):
    """The section `front_ends` of an engine's facts.

    Attributes:
        count: Number of front ends that tell of it; each has counted only its requests.
        state_cause: Cause of the outputs with the engine's state of their time. That
            of others may be old.
    """

    count: int
    state_cause: str


_SECTION = Section("front_ends", FrontEnds)


@dataclass(slots=True)
class _Shared:
    """One engine."""

    front_ends: FrontEnds
    started: dict[int, Started] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    parts: dict[int, SchedulerStats] = field(default_factory=dict)
    state: SchedulerStats = field(default_factory=SchedulerStats)
    sleep_level: int = 0
    at: int = 0


class SharedEngines:
    """Adds up what front ends have counted, and keeps the latest state of each engine.

    An engine that nobody shares passes as it is.
    """

    def __init__(self) -> None:
        """Starts without engines."""
        self._engines: dict[int, _Shared] = {}

    def start(self, index: int, notice: Started) -> Started | None:
        """Returns the start of an engine, once all of its front ends have told it."""
        facts = notice.facts
        front_ends = _SECTION.read(facts.sections) if facts.sections else None
        if front_ends is None:
            return notice
        engine = self._engines.setdefault(facts.engine_index, _Shared(front_ends))
        if index in engine.started:
            return None
        engine.started[index] = notice
        if len(engine.started) < front_ends.count:
            return None
        ended = sum(each.ended_before for each in engine.started.values())
        since = min(each.since for each in engine.started.values())
        first = min(engine.started.values(), key=lambda each: each.clock.monotonic)
        return msgspec.structs.replace(first, ended_before=ended, since=since)

    def stop(self, index: int, engine_index: int) -> bool:
        """Whether the engine has stopped for all of its front ends."""
        if (engine := self._engines.get(engine_index)) is None:
            return True
        engine.stopped.add(index)
        return len(engine.stopped) == engine.front_ends.count

    def since(self, index: int, engine_index: int, since: int) -> int:
        """Returns the time up to which a front end's ends are part of the start."""
        engine = self._engines.get(engine_index)
        started = None if engine is None else engine.started.get(index)
        return since if started is None else started.since

    def whole(self, index: int, output: StepOutput) -> StepOutput | None:
        """Returns an output with the whole engine's state; None if it is not shared."""
        if (engine := self._engines.get(output.engine_index)) is None:
            return None
        part, before = output.stats, engine.parts.get(index)
        engine.parts[index] = part
        if output.cause == engine.front_ends.state_cause and output.at >= engine.at:
            engine.state, engine.at = part, output.at
        if part.sleep_level != (0 if before is None else before.sleep_level):
            engine.sleep_level = part.sleep_level
        totals = _sum([each.totals for each in engine.parts.values()])
        stats = msgspec.structs.replace(
            engine.state,
            totals=totals,
            waiting_tokens=sum(each.waiting_tokens for each in engine.parts.values()),
            sleep_level=engine.sleep_level,
        )
        in_flight = totals.received - sum(totals.finished.values())
        stats, at = balanced(stats, in_flight), max(output.at, engine.at)
        return msgspec.structs.replace(output, stats=stats, at=at)


def _sum(parts: Sequence[EngineTotals]) -> EngineTotals:
    """Adds up all numbers, whatever is counted."""
    added = None
    for part in parts:
        added = _added(added, msgspec.to_builtins(part, enc_hook=plain))
    return msgspec.convert(added, EngineTotals)


def _added(one: Any, other: Any) -> Any:
    if one is None:
        return other
    if isinstance(other, dict):
        return {**one, **{key: _added(one.get(key), other[key]) for key in other}}
    if isinstance(other, list):
        return [_added(*pair) for pair in zip(one, other, strict=True)]
    return one + other
