"""The catalogue of metrics as rows, one for each name that a scrape can show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hookline_metrics import (
    CATALOGUE,
    DIALECTS,
    NOT_APPLICABLE,
    Alias,
    Kind,
    Metric,
)
from hookline_metrics.buckets import BucketFamily, bounds_of
from hookline_metrics.engine_tells import EngineTells


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """A metric under one of its names.

    Attributes:
        name: Name in a scrape.
        dialect: Naming scheme of the name.
        kind: Counter, gauge, histogram or summary.
        unit: Base unit of Hookline's own metric; `1` if it has none.
        help: HELP text, with a notice if the name is deprecated.
        labels: Their names.
        buckets: Upper bounds; None if it is no histogram, or they depend on the model.
        bucket_family: Family of these bounds, by which they can be replaced.
        stability: Stability of the name.
        since: First version that has it.
        hidden_since: First version that hides the deprecated name.
        replaced_by: Name to use instead of a deprecated one.
        feature: Option that enables it; None if it is always exposed.
        metric: Hookline's own name of the metric.
        zero: Why the value is always 0; None if something feeds it.
        deviation: How it differs from the value of the dialect's own engine.
    """

    name: str
    dialect: str
    kind: str
    unit: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] | None
    bucket_family: str | None
    stability: str
    since: str
    hidden_since: str | None
    replaced_by: str | None
    feature: str | None
    metric: str
    zero: str | None
    deviation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding:
    """Whether engines of a kind feed a name.

    Attributes:
        absent: Why none does; None if some do.
        condition: On what it depends; None if on nothing.
    """

    absent: str | None
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentName:
    """A name of a dialect that no scrape shows, and why."""

    name: str
    dialect: str
    reason: str


def rows(dialects: Sequence[str] = DIALECTS) -> list[MetricRow]:
    """Returns every name of these dialects once, sorted by dialect and name."""
    found: dict[tuple[str, str], MetricRow] = {}
    for row in _all_rows(dialects):
        # Several metrics can share a name; they are added up.
        found.setdefault((row.dialect, row.name), row)
    return [found[key] for key in sorted(found)]


def absent(dialects: Sequence[str] = DIALECTS) -> list[AbsentName]:
    """Returns the names of these dialects that do not apply to Hookline, sorted."""
    return [
        AbsentName(name=name, dialect=dialect, reason=reason)
        for dialect in sorted(dialects)
        for name, reason in sorted(NOT_APPLICABLE.get(dialect, {}).items())
    ]


def feedings(
    tells: EngineTells, dialects: Sequence[str] = DIALECTS
) -> Mapping[tuple[str, str], Feeding]:
    """Returns by dialect and name whether an engine with these `tells` feeds it.

    Of metrics that share a name it is enough that one is fed.
    """
    found: dict[tuple[str, str], Feeding] = {}
    for metric in CATALOGUE:
        fed = Feeding(
            absent=tells.why_absent(metric), condition=tells.condition_of(metric)
        )
        for dialect in dialects:
            for alias in metric.aliases(dialect):
                key = dialect, _exposed(metric, alias)
                if key not in found or found[key].absent is not None:
                    found[key] = fed
    return found


def named(name: str) -> list[MetricRow]:
    """Returns the rows of that name, with or without `_total`."""
    wanted = (name, f"{name}_total")
    return [row for row in _all_rows(DIALECTS) if row.name in wanted]


def others(row: MetricRow) -> list[MetricRow]:
    """Returns the rows of the metric's other names."""
    found = [other for other in rows() if other.metric == row.metric]
    return [other for other in found if other.name != row.name]


def _all_rows(dialects: Sequence[str]) -> Iterable[MetricRow]:
    for metric in CATALOGUE:
        for dialect in dialects:
            for alias in metric.aliases(dialect):
                yield _row(metric, dialect, alias)


def _exposed(metric: Metric, alias: Alias) -> str:
    is_counter = metric.kind_of(alias) is Kind.COUNTER
    return f"{alias.name}_total" if is_counter else alias.name


def _row(metric: Metric, dialect: str, alias: Alias) -> MetricRow:
    kind = metric.kind_of(alias)
    family = (alias.buckets or metric.buckets) if kind is Kind.HISTOGRAM else None
    return MetricRow(
        name=_exposed(metric, alias),
        dialect=dialect,
        kind=kind.value,
        unit=metric.unit,
        help=metric.help_of(alias),
        labels=_labels(metric, alias),
        buckets=_bounds(family),
        bucket_family=None if family is None else family.value,
        stability="deprecated" if alias.hidden_since else metric.stability.value,
        since=metric.since,
        hidden_since=alias.hidden_since,
        replaced_by=alias.replaced_by or metric.replaced_by,
        feature=None if metric.feature is None else metric.feature.value,
        metric=metric.name,
        zero=alias.zero,
        deviation=alias.deviation,
    )


def _labels(metric: Metric, alias: Alias) -> tuple[str, ...]:
    kept = (name for name in metric.label_names if name not in alias.drop)
    return (*(alias.rename.get(name, name) for name in kept), *alias.add)


def _bounds(family: BucketFamily | None) -> tuple[float, ...] | None:
    if family is None or family is BucketFamily.REQUEST_TOKENS:
        return None
    return bounds_of(family, max_model_len=1)
