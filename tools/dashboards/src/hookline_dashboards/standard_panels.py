"""Panels by kind of metric: what a counter, a gauge or a histogram is drawn as."""

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
    """Makes panels of metrics, by their names in the catalogue.

    Several metrics in a panel have to have the same unit.
    """

    def __init__(self, names: Names) -> None:
        self._metrics = names.metrics
        self._expressions = Expressions(names)

    def each(
        self, title: str, *names: str, alarm: Alarm = Alarm.NONE, is_table: bool = False
    ) -> Panel:
        """Gauges that say nothing when added up: every series for itself."""
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
        """Gauges of all engines together, by the metrics' own labels."""
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
        """Counters a second of all engines together, by the metrics' own labels."""
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
        """Means of histograms, by the metrics' own labels, on top of one another."""
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
        """What share of a counter another one is."""
        rate = self._expressions.per_second
        query = Query(f"{rate(part)} / {rate(whole)}", "share")
        return Panel(title=title, unit=Unit.RATIO, queries=(query,))

    def distribution(self, title: str, name: str) -> Panel:
        """Quantiles and the mean of a histogram."""
        queries = [
            Query(self._expressions.quantile(share, name), word)
            for word, share in _QUANTILES.items()
        ]
        queries.append(Query(self._expressions.mean(name), "mean"))
        return Panel(title=title, unit=self._level(name), queries=tuple(queries))

    def tails(self, title: str, name: str) -> Panel:
        """One quantile of a histogram, by the metric's own labels."""
        labels = self._labels(name)
        query = Query(
            self._expressions.quantile(_QUANTILES["p99"], name, labels),
            f"p99 {_braced(labels)}",
        )
        return Panel(title=title, unit=self._level(name), queries=(query,))

    def heatmap(self, title: str, name: str) -> Panel:
        """How a histogram's observations spread over its buckets."""
        query = Query(self._expressions.buckets(name), "{{le}}")
        return Panel(
            title=title,
            unit=self._level(name),
            queries=(query,),
            style=Style.HEATMAP,
        )

    def named(self, prefix: str) -> tuple[Panel, ...]:
        """A panel for each metric whose name starts so, in the catalogue's order."""
        return tuple(
            self._standard(metric, metric.name.removeprefix(prefix))
            for metric in self._metrics.values()
            if metric.name.startswith(prefix)
        )

    def _standard(self, metric: Metric, short: str) -> Panel:
        title = short.replace("_", " ").capitalize()
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
        """Whose series it is, its labels, and what it is where it is not alone."""
        is_engine = self._metrics[name].scope is Scope.ENGINE
        source = ("instance", "engine") if is_engine else ("instance",)
        labels = _braced((*source, *self._labels(name)))
        return labels if len(together) == 1 else f"{labels} {_words(name)}"

    def _legend(self, name: str, together: tuple[str, ...]) -> str:
        """Its labels, and what it is where it is not alone or has no labels."""
        labels = _braced(self._labels(name))
        if labels and len(together) == 1:
            return labels
        return f"{_words(name)} {labels}".strip()


def _braced(labels: Labels) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _words(name: str) -> str:
    return name.removeprefix("hookline_").replace("_", " ")
