"""Standard panels for counters, gauges and histograms."""

from collections.abc import Callable, Mapping

from hookline_dashboards.dialect_series import Series
from hookline_dashboards.expressions import (
    Names,
    buckets,
    latest,
    mean,
    per_second,
    quantile,
    total,
)
from hookline_dashboards.panel import Alarm, Panel, Query, Style, Unit
from hookline_metrics.metric import Kind, Labels, Metric, Scope

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LEVELS = {"seconds": Unit.SECONDS, "ratio": Unit.RATIO, "bytes": Unit.BYTES}
_RATES = {
    "seconds": Unit.RATIO,
    "bytes": Unit.BYTES_PER_SECOND,
    "operations": Unit.OPERATIONS_PER_SECOND,
}


class StandardPanels:
    """Creates panels of metrics, by their names in the catalogue.

    All metrics of a panel must have the same unit. A panel has no queries if the
    dialect has none of its numbers.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._metrics = names.metrics

    def each(
        self, title: str, *names: str, alarm: Alarm = Alarm.NONE, is_table: bool = False
    ) -> Panel:
        """Returns a panel of gauges that cannot be summed: one line per series."""
        return Panel(
            title=title,
            unit=self._level(names[0]),
            queries=tuple(
                Query(latest(series), _source(series, is_alone=len(names) == 1))
                for name in names
                for series in self._names.series(name)
            ),
            style=Style.TABLE if is_table else Style.LINES,
            alarm=alarm,
        )

    def totals(
        self,
        title: str,
        *names: str,
        style: Style = Style.LINES,
        alarm: Alarm = Alarm.NONE,
    ) -> Panel:
        """Returns a panel of gauges summed over engines, by the metrics' own labels."""
        return Panel(
            title=title,
            unit=self._level(names[0]),
            queries=self._by_labels(total, names, style),
            style=style,
            alarm=alarm,
        )

    def rates(
        self,
        title: str,
        *names: str,
        style: Style = Style.LINES,
        alarm: Alarm = Alarm.NONE,
    ) -> Panel:
        """Returns a panel of rates summed over engines, by the metrics' own labels."""
        return Panel(
            title=title,
            unit=_RATES.get(self._metrics[names[0]].unit, Unit.PER_SECOND),
            queries=self._by_labels(per_second, names, style),
            style=style,
            alarm=alarm,
        )

    def means(self, title: str, *names: str) -> Panel:
        """Returns a panel of histograms' stacked means, by their own labels."""
        return Panel(
            title=title,
            unit=self._level(names[0]),
            queries=self._by_labels(mean, names, Style.STACKED),
            style=Style.STACKED,
        )

    def share(self, title: str, part: str, whole: str) -> Panel:
        """Returns a panel of the ratio of two counters' rates."""
        queries = tuple(
            Query(f"{per_second(above)} / {per_second(below)}", "share")
            for above in self._names.series(part)
            for below in self._names.series(whole)
        )
        return Panel(title=title, unit=Unit.RATIO, queries=queries)

    def distribution(self, title: str, name: str) -> Panel:
        """Returns a panel of a histogram's quantiles and mean."""
        queries = [
            Query(expression, word)
            for series in self._names.series(name)
            for word, expression in (
                *((word, quantile(q, series)) for word, q in _QUANTILES.items()),
                ("mean", mean(series)),
            )
        ]
        return Panel(title=title, unit=self._level(name), queries=tuple(queries))

    def tails(self, title: str, name: str) -> Panel:
        """Returns a panel of a histogram's p99, by the metric's own labels."""
        queries = tuple(
            Query(
                quantile(_QUANTILES["p99"], series, _labels(series)),
                f"p99 {_braced(_labels(series))}",
            )
            for series in self._names.series(name)
        )
        return Panel(title=title, unit=self._level(name), queries=queries)

    def heatmap(self, title: str, name: str) -> Panel:
        """Returns a heatmap of a histogram's buckets."""
        return Panel(
            title=title,
            unit=self._level(name),
            queries=tuple(
                Query(buckets(series), "{{le}}") for series in self._names.series(name)
            ),
            style=Style.HEATMAP,
        )

    def named(self, prefix: str, titles: Mapping[str, str]) -> tuple[Panel, ...]:
        """Returns one panel per metric with the prefix, in the catalogue's order.

        Args:
            prefix: Start of the metrics' names.
            titles: Titles by the rest of the name; others are derived from the name.
        """
        return tuple(
            self._standard(metric, titles.get(short) or _words(short).capitalize())
            for metric in self._metrics.values()
            if metric.name.startswith(prefix)
            for short in [metric.name.removeprefix(prefix)]
        )

    def _standard(self, metric: Metric, title: str) -> Panel:
        match metric.kind:
            case Kind.COUNTER:
                return self.rates(title, metric.name)
            case Kind.HISTOGRAM:
                draw = self.tails if metric.labels else self.distribution
                return draw(title, metric.name)
            case _:
                return self.each(title, metric.name)

    def _level(self, name: str) -> Unit:
        return _LEVELS.get(self._metrics[name].unit, Unit.COUNT)

    def _by_labels(
        self,
        expression: Callable[[Series, Labels], str],
        names: tuple[str, ...],
        style: Style,
    ) -> tuple[Query, ...]:
        """Returns one query per series; a stack needs all labels: its parts."""
        found = [series for name in names for series in self._names.series(name)]
        if style is Style.STACKED and any(map(_lacks_labels, found)):
            return ()
        return tuple(
            Query(
                expression(series, _labels(series)),
                _legend(series, is_alone=len(names) == 1),
            )
            for series in found
        )


def _lacks_labels(series: Series) -> bool:
    return len(_labels(series)) < len(series.metric.labels)


def _labels(series: Series) -> Labels:
    """Returns the dialect's names of the metric's own labels."""
    own = (label.name for label in series.metric.labels)
    return tuple(series.labels[name] for name in own if name in series.labels)


def _source(series: Series, *, is_alone: bool) -> str:
    """Returns a legend with source, labels, and the metric if several."""
    is_engine = series.metric.scope is Scope.ENGINE and "engine" in series.labels
    source = ("instance", series.labels["engine"]) if is_engine else ("instance",)
    labels = _braced((*source, *_labels(series)))
    if is_alone:
        return f"{labels} {series.only}".strip()
    return f"{labels} {_words(series.metric.name)} {series.only}".strip()


def _legend(series: Series, *, is_alone: bool) -> str:
    """Returns a legend with the labels, and the metric if there are several."""
    labels = f"{_braced(_labels(series))} {series.only}".strip()
    if labels and is_alone:
        return labels
    return f"{_words(series.metric.name)} {labels}".strip()


def _braced(labels: Labels) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _words(name: str) -> str:
    return name.removeprefix("hookline_").replace("_", " ")
