"""Selects families by the parameter `name[]` of a scrape.

A name selects its whole family, whether it is the family's or that of some of its
samples: part of a histogram would not be a valid page in OpenMetrics.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from prometheus_client import Metric

from hookline_metrics import Family, Kind

PARAMETER = "name[]"

Names = frozenset[str]

_SUFFIXES: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        Kind.COUNTER: ("_total", "_created"),
        Kind.GAUGE: (),
        Kind.SUMMARY: ("_count", "_sum", "_created"),
        Kind.HISTOGRAM: ("_bucket", "_count", "_sum", "_created"),
    }
)


def selected_names(query_values: Mapping[str, Iterable[str]]) -> Names:
    """Returns the names that a query selects; none stands for all families."""
    return frozenset(filter(None, query_values.get(PARAMETER, ())))


def has_family(names: Names, family: Family) -> bool:
    """Tells whether a family of the catalogue is selected."""
    suffixes = ("", *_SUFFIXES[family.kind])
    return any(f"{family.name}{suffix}" in names for suffix in suffixes)


def has_metric(names: Names, metric: Metric) -> bool:
    """Tells whether a family of prometheus_client is selected."""
    return metric.name in names or any(
        sample.name in names for sample in metric.samples
    )
