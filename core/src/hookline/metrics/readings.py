"""How metrics are read: a function for each kind of payload part."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hookline.events import StepRecord
from hookline.metrics.metric import Point
from hookline.metrics.speculation import SpeculationReading
from hookline.payloads import EngineFacts
from hookline.stats import SchedulerStats
from hookline_registry import LaneStats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StateReading:
    """The engine's state, and when it was so, on the clock of its own times."""

    stats: SchedulerStats
    at: int
    facts: EngineFacts


@dataclass(frozen=True, slots=True)
class StepReading:
    """A step, and the engine that made it."""

    record: StepRecord
    facts: EngineFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    """What can only be said at the moment it is asked for.

    Attributes:
        generation_rate: Tokens a second, of late.
        hit_rate: Of the prefix cache, over the most recent requests.
        saturation: How close the engine is to the knee.
        saturation_parts: What that number consists of.
        slo_attainment: Share of the judged requests that met their objectives, of late.
        goodput: Requests a second that met their objectives, of late.
        last_step_age: Seconds since a step was last heard of; since the start before
            the first one.
        speculation: How well drafts do, of late.
        snapshot_age: Seconds since anything was last heard of the engine.
        is_up: Whether the engine runs.
    """

    generation_rate: float
    hit_rate: float
    saturation: float
    saturation_parts: Mapping[str, float]
    slo_attainment: float
    goodput: float
    last_step_age: float
    snapshot_age: float
    is_up: bool
    speculation: SpeculationReading


@dataclass(frozen=True, slots=True)
class HttpLoad:
    """Requests being answered now, by (route, method)."""

    in_flight: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class FoldedValues:
    """How often a label's value was told as `other`, by label."""

    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """Reads points off one class of payload part.

    Attributes:
        kind: That class.
        points: What it says.
    """

    kind: type[T]
    points: Callable[[T], Iterable[Point]]

    def read(self, subject: object) -> Iterable[Point]:
        """The points in `subject`; none if it is not a `kind`."""
        return self.points(subject) if isinstance(subject, self.kind) else ()


RUNNING_TOTALS: frozenset[type] = frozenset({StateReading, LaneStats, FoldedValues})
"""Parts whose counts are totals since their source's start, not increments."""


def one(value: float | None) -> Iterable[Point]:
    """A single number, or nothing where there is none."""
    return () if value is None else (((), value, 1),)


def by_label(values: Mapping[str, float]) -> Iterable[Point]:
    """A number for each value of the metric's only label."""
    return [((label,), value, 1) for label, value in values.items()]
