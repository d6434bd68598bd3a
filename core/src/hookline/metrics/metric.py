"""What a metric is: one frozen record from which series, pages and documents follow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hookline.metrics.buckets import BucketFamily

Labels = tuple[str, ...]
Point = tuple[Labels, float, int]
"""Values of a metric's own labels, a number, and how often it was seen."""

COMMON_LABELS = ("model_name", "engine")
OWN_DIALECT = "hookline"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """What a reader may rely on; only a new minor version may break `STABLE`."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"


class Value(Protocol):
    """How a metric's numbers are read off one kind of payload part.

    Attributes:
        kind: The class of what is read.
    """

    @property
    def kind(self) -> type: ...

    def read(self, subject: object) -> Iterable[Point]:
        """The points in `subject`, none if it is not a `kind`; in any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Label:
    """A label besides `model_name` and `engine`.

    Attributes:
        values: All it can have, so that each series exists before its first event;
            empty where they are not known beforehand.
    """

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A metric as another dialect tells it; samples that become equal are added up.

    Attributes:
        name: Theirs, without `_total` for counters.
        rename: Their label name by ours.
        values: By our label name, their value by ours; samples with a value that is
            not listed are left out.
        drop: Labels of ours that they do not have.
    """

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether only the metric's and the labels' names differ."""
        return not self.values and not self.drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family of series.

    Attributes:
        name: In Hookline's own dialect, without `_total` for counters.
        kind: Counter, gauge or histogram.
        unit: Base unit in the plural; `1` where there is none.
        help: What it counts; for an interval, between which two moments.
        value: How it is read.
        labels: Besides `model_name` and `engine`.
        buckets: Of a histogram.
        stability: What a reader may rely on.
        since: The version that brought it.
        replaced_by: The metric to read instead of a deprecated one.
        names: How other dialects tell it, by dialect.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    value: Value
    labels: tuple[Label, ...] = ()
    buckets: BucketFamily | None = None
    stability: Stability = Stability.STABLE
    since: str = "0.1"
    replaced_by: str | None = None
    names: Mapping[str, tuple[Alias, ...]] = field(default_factory=dict)

    @property
    def label_names(self) -> Labels:
        return (*COMMON_LABELS, *(label.name for label in self.labels))

    def aliases(self, dialect: str) -> tuple[Alias, ...]:
        """What `dialect` calls it; nothing where it has no such metric."""
        if dialect == OWN_DIALECT:
            return (Alias(name=self.name),)
        return self.names.get(dialect, ())

    def exposed(self, name: str) -> str:
        """The name as a scrape shows it."""
        return f"{name}_total" if self.kind is Kind.COUNTER else name
