"""What a metric is: one frozen record from which series, pages and documents follow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hookline.metrics.buckets import BucketFamily

Labels = tuple[str, ...]
Point = tuple[Labels, float, int]
"""Values of a metric's own labels, a number, and how often it was seen."""

OWN_DIALECT = "hookline"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """Only as another dialect's telling of a histogram: its count and its sum."""


class Stability(StrEnum):
    """What a reader may rely on; only a new minor version may break `STABLE`."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"


class Scope(StrEnum):
    """Whose number it is, which decides the labels that every series has."""

    ENGINE = "engine"
    FRONT_END = "front_end"

    @property
    def labels(self) -> Labels:
        return ("model_name", "engine") if self is Scope.ENGINE else ()


COMMON_LABELS = Scope.ENGINE.labels


class Feature(StrEnum):
    """What has to be switched on for a metric to be there."""

    RESIDENCY = "kv-cache-metrics"
    MODEL_TIMES = "collect-detailed-traces model"
    WORKER_TIMES = "collect-detailed-traces worker"
    TENANTS = "max-tenants"


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
    """A label besides those of the metric's scope.

    Attributes:
        values: All it can have, so that each series exists before its first event;
            empty where they are not known beforehand.
        cap: Where they are not known, most values that it may take; what comes after
            them is told as `other`.
    """

    name: str
    values: tuple[str, ...] = ()
    cap: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A metric as another dialect tells it; samples that become equal are added up.

    Attributes:
        name: Theirs, without `_total` for counters.
        rename: Their label name by ours.
        values: By our label name, their value by ours; samples with a value that is
            not listed are left out.
        drop: Labels of ours that they do not have.
        add: Labels of theirs that always have the same value.
        buckets: Their upper bounds, where they differ.
        scale: Their unit is so many to one of ours.
        kind: Theirs, where it differs.
        help: Theirs, where it differs.
        hidden_since: A deprecated name is not shown from this version on, unless asked
            for.
        replaced_by: What to read instead of a deprecated name.
    """

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    add: Mapping[str, str] = field(default_factory=dict)
    buckets: BucketFamily | None = None
    scale: float = 1.0
    kind: Kind | None = None
    help: str | None = None
    hidden_since: str | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One family of series.

    Attributes:
        name: In Hookline's own dialect, without `_total` for counters.
        kind: Counter, gauge or histogram.
        unit: Base unit in the plural; `1` where there is none.
        help: What it counts; for an interval, between which two moments.
        value: How it is read.
        labels: Besides those of its scope.
        buckets: Of a histogram.
        scope: Whose number it is.
        feature: What has to be on for it to be there; always there if None.
        is_own: Whether Hookline's own dialect has it, or only another's, where it
            differs from ours by more than names.
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
    scope: Scope = Scope.ENGINE
    feature: Feature | None = None
    is_own: bool = True
    stability: Stability = Stability.STABLE
    since: str = "0.1"
    replaced_by: str | None = None
    names: Mapping[str, tuple[Alias, ...]] = field(default_factory=dict)

    @property
    def label_names(self) -> Labels:
        return (*self.scope.labels, *(label.name for label in self.labels))

    def aliases(self, dialect: str) -> tuple[Alias, ...]:
        """What `dialect` calls it; nothing where it has no such metric."""
        if dialect == OWN_DIALECT:
            return (Alias(name=self.name),) if self.is_own else ()
        return self.names.get(dialect, ())

    def kind_of(self, alias: Alias) -> Kind:
        return alias.kind or self.kind

    def help_of(self, alias: Alias) -> str:
        """The help text, with a notice where the name is deprecated."""
        text = alias.help or self.help
        if alias.hidden_since is None:
            return text
        instead = f"use {alias.replaced_by} instead" if alias.replaced_by else "unused"
        return f"DEPRECATED, {instead}; hidden since {alias.hidden_since}. {text}"

    def exposed(self, name: str) -> str:
        """The name as a scrape shows it."""
        return f"{name}_total" if self.kind is Kind.COUNTER else name
