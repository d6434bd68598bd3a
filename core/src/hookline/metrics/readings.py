"""How metrics are read: a function for each kind of payload part."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hookline.metrics.metric import Point
from hookline.stats import SchedulerStats
from hookline_registry import LaneStats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StateReading:
    """The engine's state, and when it was so, on the clock of its own times."""

    stats: SchedulerStats
    at: int


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


RUNNING_TOTALS: frozenset[type] = frozenset({StateReading, LaneStats})
"""Parts whose counts are totals since their source's start, not increments."""


def one(value: float | None) -> Iterable[Point]:
    """A single number, or nothing where there is none."""
    return () if value is None else (((), value, 1),)


def each(values: Iterable[float]) -> Iterable[Point]:
    """Several observations."""
    return [((), value, 1) for value in values]


def by_label(values: Mapping[str, float]) -> Iterable[Point]:
    """A number for each value of the metric's only label."""
    return [((label,), value, 1) for label, value in values.items()]
