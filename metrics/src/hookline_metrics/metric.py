"""The definition of a metric, from which series, pages and documents are made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily

Labels = tuple[str, ...]
Needs = tuple[Tells, ...]
Point = tuple[Labels, float, int]
"""Values of the metric's own labels, a number, and its number of occurrences."""

OWN_DIALECT = "hookline"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """Only for other dialects: a histogram's count and sum, without buckets."""


class Stability(StrEnum):
    """Stability promise; only a new minor version may break `STABLE`."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"
    DEPRECATED = "deprecated"


class Scope(StrEnum):
    """The metric's source, which determines the labels common to all its series."""

    ENGINE = "engine"
    FRONT_END = "front_end"

    @property
    def labels(self) -> Labels:
        return ("model_name", "engine") if self is Scope.ENGINE else ("model_name",)


COMMON_LABELS = Scope.ENGINE.labels


class Feature(StrEnum):
    """A feature that must be enabled for a metric to exist."""

    RESIDENCY = "kv-cache-metrics"
    MODEL_TIMES = "collect-detailed-traces model"
    WORKER_TIMES = "collect-detailed-traces worker"
    TENANTS = "max-tenants"
    ADAPTERS = "enable-lora"

    @property
    def note(self) -> str:
        """Says, after the option's name, that it is the default; or nothing."""
        is_default = self in (Feature.MODEL_TIMES, Feature.WORKER_TIMES)
        return ", the default" if is_default else ""


class Value(Protocol):
    """Reads a metric's points from one class of payload part.

    Attributes:
        kind: The class of payload part that it reads.
    """

    @property
    def kind(self) -> type: ...

    def read(self, subject: object) -> Iterable[Point]:
        """Returns the points in `subject`, none if it is not a `kind`. Thread-safe."""
        ...


@dataclass(frozen=True, slots=True)
class Label:
    """A label in addition to those of the metric's scope.

    Attributes:
        values: All possible values, so that each series exists before its first event;
            empty if they are not known in advance.
        known: Values known in advance among others that are not; their series, too,
            exist before their first event.
        cap: Maximum number of values if they are not known in advance; further values
            become `other`. None if an engine has only one at a time, so that nothing
            has to be bounded.
    """

    name: str
    values: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    cap: int | None = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A metric in another dialect; samples with equal labels are added up.

    Attributes:
        name: The dialect's name, without `_total` for counters.
        rename: The dialect's label name by our label name.
        values: By our label name, the dialect's value by our value; samples with an
            unlisted value are left out.
        without: By our label name, parts of values; samples whose value contains one of
            them are left out.
        drop: Labels of ours that the dialect does not have.
        add: Constant labels of the dialect.
        buckets: The dialect's upper bounds, if they differ.
        scale: Factor from our unit to the dialect's.
        kind: The dialect's kind, if it differs.
        help: The dialect's help text, if it differs.
        zero: Why the value is always 0 here; None if something feeds it.
        deviation: How the value differs from the one that the dialect's own engine
            shows, apart from labels, buckets and units; None if it does not.
        hidden_since: The version from which a deprecated name is hidden by default.
        replaced_by: The replacement of a deprecated name.
    """

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    add: Mapping[str, str] = field(default_factory=dict)
    buckets: BucketFamily | None = None
    scale: float = 1.0
    kind: Kind | None = None
    help: str | None = None
    zero: str | None = None
    deviation: str | None = None
    hidden_since: str | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The definition of one metric family.

    Attributes:
        name: Name in Hookline's dialect, without `_total` for counters.
        kind: Counter, gauge or histogram.
        unit: Base unit in the plural, or `1`.
        help: Help text; for an interval, with its start and end.
        value: Reads its points from a payload part.
        labels: Labels in addition to those of its scope.
        buckets: Bucket family of a histogram.
        scope: Its source.
        feature: Feature that must be enabled for it to exist; None if it always exists.
        needs: What an engine has to tell for it to have values; None if the part that
            it reads says it (`hookline_metrics.needs`).
        is_fleeting: Whether a gauge has series only while its part has values for them.
        is_own: Whether Hookline's dialect has it. False for a metric that only exists
            in another dialect because it differs by more than names.
        stability: Stability promise.
        since: The version that introduced it.
        replaced_by: The replacement of a deprecated metric.
        names: Its aliases by dialect.
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
    needs: Needs | None = None
    is_fleeting: bool = False
    is_own: bool = True
    stability: Stability = Stability.STABLE
    since: str = "0.1"
    replaced_by: str | None = None
    names: Mapping[str, tuple[Alias, ...]] = field(default_factory=dict)

    @property
    def label_names(self) -> Labels:
        return (*self.scope.labels, *(label.name for label in self.labels))

    def aliases(self, dialect: str) -> tuple[Alias, ...]:
        """Returns its aliases in `dialect`, empty if the dialect has no such metric."""
        if dialect == OWN_DIALECT:
            return (Alias(name=self.name),) if self.is_own else ()
        return self.names.get(dialect, ())

    def kind_of(self, alias: Alias) -> Kind:
        return alias.kind or self.kind

    def help_of(self, alias: Alias) -> str:
        """Returns the help text, with a notice if the name is deprecated."""
        text = alias.help or self.help
        if alias.hidden_since is None:
            return text
        instead = f"use {alias.replaced_by} instead" if alias.replaced_by else "unused"
        return f"DEPRECATED, {instead}; hidden since {alias.hidden_since}. {text}"

    def exposed(self, name: str) -> str:
        """Returns the name as exposed by a scrape."""
        return f"{name}_total" if self.kind is Kind.COUNTER else name
