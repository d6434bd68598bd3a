"""Standard panels for counters, gauges and histograms."""

from collections.abc import Mapping

from hookline.metrics.metric import Kind, Labels, Metric, Scope
from hookline_dashboards.expressions import Expressions, Names
from hookline_dashboards.panel import Alarm, Panel, Query, Style, Unit

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_LEVELS = {"seconds": Unit.SECONDS, "ratio": Unit.RATIO, "bytes": Unit.BYTES}
_RATES = {
    "seconds": Unit.RATIO,
    "bytes": Unit.BYTES_PER_SECOND,
    "operations": Unit.OPERATIONS_PER_SECOND,
}


class StandardPanels:
    """Creates panels of metrics, by their names in the catalogue.

    All metrics of a panel must have the same unit.
    """

    def __init__(self, names: Names) -> None:
        self._metrics = names.metrics
        self._expressions = Expressions(names)

    def each(
        self, title: str, *names: str, alarm: Alarm = Alarm.NONE, is_table: bool = False
    ) -> Panel:
        """Returns a panel of gauges that cannot be summed: one line per series."""
        return Panel(
            title=title,
            unit=self._level(names[0]),
            queries=tuple(
                Query(self._expressions.latest(name), self._source(name, names))
                for name in names
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
            queries=tuple(
                Query(
                    self._expressions.total(name, self._labels(name)),
                    self._legend(name, names),
                )
                for name in names
            ),
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
            queries=tuple(
                Query(
                    self._expressions.per_second(name, self._labels(name)),
                    self._legend(name, names),
                )
                for name in names
            ),
            style=style,
            alarm=alarm,
        )

    def means(self, title: str, *names: str) -> Panel:
        """Returns a panel of histograms' stacked means, by their own labels."""
        return Panel(
            title=title,
            unit=self._level(names[0]),
            queries=tuple(
                Query(
                    self._expressions.mean(name, self._labels(name)),
                    self._legend(name, names),
                )
                for name in names
            ),
            style=Style.STACKED,
        )

    def share(self, title: str, part: str, whole: str) -> Panel:
        """Returns a panel of the ratio of two counters' rates."""
        rate = self._expressions.per_second
        query = Query(f"{rate(part)} / {rate(whole)}", "share")
        return Panel(title=title, unit=Unit.RATIO, queries=(query,))

    def distribution(self, title: str, name: str) -> Panel:
        """Returns a panel of a histogram's quantiles and mean."""
        queries = [
            Query(self._expressions.quantile(share, name), word)
            for word, share in _QUANTILES.items()
        ]
        queries.append(Query(self._expressions.mean(name), "mean"))
        return Panel(title=title, unit=self._level(name), queries=tuple(queries))

    def tails(self, title: str, name: str) -> Panel:
        """Returns a panel of a histogram's p99, by the metric's own labels."""
        labels = self._labels(name)
        query = Query(
            self._expressions.quantile(_QUANTILES["p99"], name, labels),
            f"p99 {_braced(labels)}",
        )
        return Panel(title=title, unit=self._level(name), queries=(query,))

    def heatmap(self, title: str, name: str) -> Panel:
        """Returns a heatmap of a histogram's buckets."""
        query = Query(self._expressions.buckets(name), "{{le}}")
        return Panel(
            title=title,
            unit=self._level(name),
            queries=(query,),
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

    def _labels(self, name: str) -> Labels:
        return tuple(label.name for label in self._metrics[name].labels)

    def _source(self, name: str, together: tuple[str, ...]) -> str:
        """Returns a legend with source, labels, and the metric if several."""
        is_engine = self._metrics[name].scope is Scope.ENGINE
        source = ("instance", "engine") if is_engine else ("instance",)
        labels = _braced((*source, *self._labels(name)))
        return labels if len(together) == 1 else f"{labels} {_words(name)}"

    def _legend(self, name: str, together: tuple[str, ...]) -> str:
        """Returns a legend with the labels, and the metric if there are several."""
        labels = _braced(self._labels(name))
        if labels and len(together) == 1:
            return labels
        return f"{_words(name)} {labels}".strip()


def _braced(labels: Labels) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _words(name: str) -> str:
    return name.removeprefix("hookline_").replace("_", " ")
