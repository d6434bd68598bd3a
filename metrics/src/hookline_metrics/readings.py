"""Reads metric points from payload parts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hookline.events import StepRecord
from hookline.front_end_parts import PlacementStats, TransportStats
from hookline.payloads import EngineFacts, PageStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.front_end_parts import (
    ApiKeyStats,
    ConnectionStats,
    EventLoopStats,
    IgnoredStats,
    LinkStats,
    LogStats,
    MemoryStats,
    ObserverStats,
    ParserFailures,
    ProcessStats,
    ResponseStoreStats,
    ScalingStats,
    StreamStats,
    TextStats,
    UnknownFieldStats,
)
from hookline_metrics.metric import Point
from hookline_metrics.saturation import CapacityReading
from hookline_metrics.speculation import SpeculationReading
from hookline_registry import LaneStats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StateReading:
    """An engine's state at a time, on the engine's clock."""

    stats: SchedulerStats
    at: int
    facts: EngineFacts


@dataclass(frozen=True, slots=True)
class StepReading:
    """A step and the facts of its engine."""

    record: StepRecord
    facts: EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    """Values computed at scrape time.

    Attributes:
        generation_rate: Generated tokens per second over the last 10 seconds.
        prompt_rate: Prompt tokens per second over the last 10 seconds, counted at their
            requests' first tokens.
        hit_rate: Prefix-cache hit rate over the most recent requests, 0 to 1.
        saturation: Load relative to the saturation point, from 0.
        saturation_parts: Components of `saturation`.
        bounds: Share of the last seconds in which each limit bound the engine.
        capacity: What the engine can serve, and how fast.
        slo_attainment: Fraction of recently evaluated requests that met their
            objectives.
        goodput: Recent requests per second that met their objectives.
        last_step_age: Seconds since the last step, or since the start if there was
            none.
        speculation: Recent efficiency of speculative decoding.
        snapshot_age: Seconds since the engine's most recent report.
        is_up: Whether the engine is up and not stalled.
        stall_seconds: How long it has been stalled; None while it works.
    """

    generation_rate: float
    prompt_rate: float
    hit_rate: float
    saturation: float
    saturation_parts: Mapping[str, float]
    bounds: Mapping[str, float]
    capacity: CapacityReading
    slo_attainment: float
    goodput: float
    last_step_age: float
    snapshot_age: float
    is_up: bool
    stall_seconds: float | None
    speculation: SpeculationReading


@dataclass(frozen=True, slots=True)
class HttpLoad:
    """HTTP requests in flight by (route, method)."""

    in_flight: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class FoldedValues:
    """Number of label values replaced by `other`, by label."""

    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PageDelay:
    """How far a logger was behind when one of its pages was made."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """Reads points from one class of payload part.

    Attributes:
        kind: The class.
        points: Extracts the points.
    """

    kind: type[T]
    points: Callable[[T], Iterable[Point]]

    def read(self, subject: object) -> Iterable[Point]:
        """Returns the points in `subject`, none if it is not a `kind`."""
        return self.points(subject) if isinstance(subject, self.kind) else ()


RUNNING_TOTALS: frozenset[type] = frozenset(
    {
        StateReading,
        LaneStats,
        FoldedValues,
        LogStats,
        PageStats,
        ConnectionStats,
        TextStats,
        ParserFailures,
        StreamStats,
        UnknownFieldStats,
        IgnoredStats,
        ResponseStoreStats,
        ApiKeyStats,
        EventLoopStats,
        MemoryStats,
        ProcessStats,
        TransportStats,
        LinkStats,
        PlacementStats,
        ScalingStats,
        ObserverStats,
    }
)
"""Parts whose counts are totals since their source's start, not increments."""


def one(value: float | None) -> Iterable[Point]:
    """Returns a single point, or none for None."""
    return () if value is None else (((), value, 1),)


ALWAYS_ZERO = Reading(StateReading, lambda _: one(0))
"""The value of a family that other engines have and that is 0 by nature here."""


def by_label(values: Mapping[str, float]) -> Iterable[Point]:
    """Returns one point per value of the metric's only label."""
    return [((label,), value, 1) for label, value in values.items()]
