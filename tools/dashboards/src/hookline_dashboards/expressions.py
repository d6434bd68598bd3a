"""PromQL expressions over metrics of the catalogue; unknown names are errors."""

import re
from collections.abc import Iterable

from hookline_dashboards.dialect_series import Series, series_of
from hookline_metrics.metric import OWN_DIALECT, Kind, Labels, Metric

_NAMES = {
    OWN_DIALECT: re.compile(r"(?<![\w:])hookline_\w+"),
    "vllm": re.compile(r"(?<![\w:])(?:vllm:|http_)\w+"),
    "sglang": re.compile(r"(?<![\w:])sglang:\w+"),
}
_WINDOW = "$__rate_interval"


class Names:
    """The metrics of Hookline by their names in one dialect.

    Attributes:
        dialect: The dialect.
        metrics: All metrics by their name in the catalogue.
    """

    def __init__(self, catalogue: Iterable[Metric], dialect: str = OWN_DIALECT) -> None:
        everything = {metric.name: metric for metric in catalogue}
        self.dialect = dialect
        self.metrics = {
            name: metric for name, metric in everything.items() if metric.is_own
        }
        self._series = {
            name: series_of(metric, everything, dialect)
            for name, metric in self.metrics.items()
        }
        self._exposed = {
            exposed: series
            for several in self._series.values()
            for series in several
            for exposed in series.exposed_names()
        }

    def series(self, name: str) -> tuple[Series, ...]:
        """Returns the series that show a metric, empty if the dialect lacks it."""
        return self._series[name]

    def series_in(self, expression: str) -> tuple[Series, ...]:
        """Returns the series in an expression, in order.

        Raises:
            KeyError: No metric is exposed under a name. Names of recorded series, which
                contain a colon, are skipped.
        """
        names = _NAMES[self.dialect].findall(expression)
        found = (self._exposed[name] for name in names)
        return tuple({series.name: series for series in found}.values())

    def used_in(self, expression: str) -> tuple[Metric, ...]:
        """Returns the metrics in an expression, in order; raises as `series_in`."""
        found = (series.metric for series in self.series_in(expression))
        return tuple({metric.name: metric for metric in found}.values())


def latest(series: Series) -> str:
    """Returns all series of a gauge."""
    return selected(series)


def total(series: Series, by: Labels = ()) -> str:
    """Returns the sum of a gauge over all engines."""
    return f"sum{_by(by)} ({selected(series)})"


def per_second(series: Series, by: Labels = ()) -> str:
    """Returns a counter's rate, or the rate of a histogram's observations.

    Seconds per second are averaged over engines; everything else is summed.
    """
    if series.metric.kind is Kind.HISTOGRAM:
        return _rate(series, by, "_count")
    return _rate(series, by, how="avg" if series.metric.unit == "seconds" else "sum")


def mean(series: Series, by: Labels = ()) -> str:
    """Returns the mean of a histogram's observations."""
    return f"{_rate(series, by, '_sum')} / {_rate(series, by, '_count')}"


def quantile(share: float, series: Series, by: Labels = ()) -> str:
    """Returns a quantile of a histogram's observations."""
    return f"histogram_quantile({share}, {_rate(series, ('le', *by), '_bucket')})"


def buckets(series: Series) -> str:
    """Returns the number of observations per histogram bucket."""
    return f"sum by (le) (increase({selected(series, '_bucket')}[{_WINDOW}]))"


def selected(series: Series, part: str = "") -> str:
    """Returns the series of the selected models, engines and servers."""
    scope = [name for name in series.metric.scope.labels if name in series.labels]
    matchers = (
        *(f'{name}="{value}"' for name, value in series.constants.items()),
        *(f'{series.labels[name]}=~"${name}"' for name in scope),
        'instance=~"$instance"',
    )
    return f"{series.name}{part}{{{','.join(matchers)}}}"


def _rate(series: Series, by: Labels, part: str = "", how: str = "sum") -> str:
    return f"{how}{_by(by)} (rate({selected(series, part)}[{_WINDOW}]))"


def _by(labels: Labels) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
