"""PromQL expressions over metrics of the catalogue; unknown names are errors."""

import re
from collections.abc import Iterable, Mapping

from hookline.metrics.metric import Kind, Labels, Metric, Scope

_NAME = re.compile(r"(?<![\w:])hookline_\w+")
_PARTS = ("_bucket", "_sum", "_count")
_WINDOW = "$__rate_interval"
_CHOSEN: Mapping[Scope, str] = {
    Scope.ENGINE: 'model_name=~"$model_name",engine=~"$engine",instance=~"$instance"',
    Scope.FRONT_END: 'instance=~"$instance"',
}


class Names:
    """The metrics of Hookline's dialect by name.

    Attributes:
        metrics: Metrics by their name in the catalogue.
    """

    def __init__(self, catalogue: Iterable[Metric]) -> None:
        self.metrics = {metric.name: metric for metric in catalogue if metric.is_own}
        self._exposed = {
            name: metric
            for metric in self.metrics.values()
            for name in _exposed_names(metric)
        }

    def used_in(self, expression: str) -> tuple[Metric, ...]:
        """Returns the metrics in an expression, in order.

        Raises:
            KeyError: No metric is exposed under a name. Names of recorded series, which
                contain a colon, are skipped.
        """
        found = (self._exposed[name] for name in _NAME.findall(expression))
        return tuple({metric.name: metric for metric in found}.values())


class Expressions:
    """Expressions over the selected engines and the panel's interval."""

    def __init__(self, names: Names) -> None:
        self._metrics = names.metrics

    def latest(self, name: str) -> str:
        """Returns all series of a gauge."""
        return self._series(name)

    def total(self, name: str, by: Labels = ()) -> str:
        """Returns the sum of a gauge over all engines."""
        return f"sum{_by(by)} ({self._series(name)})"

    def per_second(self, name: str, by: Labels = ()) -> str:
        """Returns a counter's rate, or the rate of a histogram's observations.

        Seconds per second are averaged over engines; everything else is summed.
        """
        metric = self._metrics[name]
        if metric.kind is Kind.HISTOGRAM:
            return self._rate(name, by, "_count")
        return self._rate(name, by, how="avg" if metric.unit == "seconds" else "sum")

    def mean(self, name: str, by: Labels = ()) -> str:
        """Returns the mean of a histogram's observations."""
        return f"{self._rate(name, by, '_sum')} / {self._rate(name, by, '_count')}"

    def quantile(self, share: float, name: str, by: Labels = ()) -> str:
        """Returns a quantile of a histogram's observations."""
        return (
            f"histogram_quantile({share}, {self._rate(name, ('le', *by), '_bucket')})"
        )

    def buckets(self, name: str) -> str:
        """Returns the number of observations per histogram bucket."""
        series = self._series(name, "_bucket")
        return f"sum by (le) (increase({series}[{_WINDOW}]))"

    def _rate(self, name: str, by: Labels, part: str = "", how: str = "sum") -> str:
        return f"{how}{_by(by)} (rate({self._series(name, part)}[{_WINDOW}]))"

    def _series(self, name: str, part: str = "") -> str:
        metric = self._metrics[name]
        return f"{metric.exposed(name)}{part}{{{_CHOSEN[metric.scope]}}}"


def _exposed_names(metric: Metric) -> Iterable[str]:
    if metric.kind is Kind.HISTOGRAM:
        return [f"{metric.name}{part}" for part in _PARTS]
    return [metric.exposed(metric.name)]


def _by(labels: Labels) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
