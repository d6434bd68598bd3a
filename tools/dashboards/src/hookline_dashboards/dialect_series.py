"""The series that show a metric in one dialect.

A dialect may lack a label, or split a metric into one name per value of a label; names
that count something else than the metric are not used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hookline_metrics.metric import Alias, Kind, Metric

_SAME: Mapping[str, Mapping[str, str]] = {
    "sglang": {
        "hookline_prompt_tokens": "sglang_prompt_tokens",
        "hookline_generation_tokens": "sglang_generation_tokens",
        "hookline_time_to_first_token_seconds": "sglang_time_to_first_token_seconds",
        "hookline_request_time_per_output_token_seconds": (
            "sglang_request_time_per_output_token_seconds"
        ),
        "hookline_request_e2e_seconds": "sglang_e2e_request_latency_seconds",
    },
    "vllm": {"hookline_engine_info": "vllm_cache_config"},
}
"""Metrics that exist only in a dialect and show the same, by Hookline's metric."""

_RANKS = frozenset({"engine_type", "tp_rank", "pp_rank", "moe_ep_rank"})
"""Constant labels of every series, which select nothing."""

_PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All or some series of a metric, under one name.

    Attributes:
        metric: The metric of Hookline's dialect.
        name: Name as exposed, without the parts of a histogram.
        help: Help text of that name.
        labels: The dialect's label by our label, without those it lacks.
        only: The value of a missing label that all of these series have; empty if they
            are the whole metric.
        constants: The dialect's labels that tell these series from others of the name.
    """

    metric: Metric
    name: str
    help: str
    labels: Mapping[str, str]
    constants: Mapping[str, str]
    only: str = ""

    def exposed_names(self) -> Iterable[str]:
        """Returns the names of its samples."""
        if self.metric.kind is Kind.HISTOGRAM:
            return [f"{self.name}{part}" for part in _PARTS]
        return [self.name]


def series_of(
    metric: Metric, catalogue: Mapping[str, Metric], dialect: str
) -> tuple[Series, ...]:
    """Returns the series that together show a metric, empty if the dialect lacks it.

    Args:
        metric: A metric of Hookline's dialect.
        catalogue: All metrics by name.
        dialect: The dialect.
    """
    same = catalogue.get(_SAME.get(dialect, {}).get(metric.name, ""), metric)
    usable = [alias for alias in same.aliases(dialect) if _is_usable(same, alias)]
    whole = [alias for alias in usable if not alias.values.keys() & alias.drop]
    if whole:
        most = min(whole, key=lambda alias: (_left_out(same, alias), len(alias.drop)))
        return (_series(metric, same, most),)
    return tuple(_pieces(metric, usable))


def _is_usable(metric: Metric, alias: Alias) -> bool:
    return (
        alias.hidden_since is None
        and alias.scale == 1
        and metric.kind_of(alias) is metric.kind
    )


def _left_out(metric: Metric, alias: Alias) -> int:
    """Returns how many known values of labels an alias leaves out."""
    return sum(
        len(set(label.values) - alias.values[label.name].keys())
        for label in metric.labels
        if label.name in alias.values
    )


def _series(metric: Metric, same: Metric, alias: Alias, only: str = "") -> Series:
    kept = [name for name in same.label_names if name not in alias.drop]
    return Series(
        metric=metric,
        name=same.exposed(alias.name),
        help=same.help_of(alias),
        labels={
            name: alias.rename.get(name, name)
            for name in metric.label_names
            if name in kept
        },
        constants={
            name: value for name, value in alias.add.items() if name not in _RANKS
        },
        only=only,
    )


def _pieces(metric: Metric, aliases: Iterable[Alias]) -> Iterator[Series]:
    """Yields one series per value of the metric's only label."""
    taken = set()
    for alias in aliases:
        values = [tuple(alias.values[name]) for name in alias.values]
        if len(metric.labels) == 1 and len(values) == 1 and len(values[0]) == 1:
            (only,) = values[0]
            if only not in taken:
                taken.add(only)
                yield _series(metric, metric, alias, only)
