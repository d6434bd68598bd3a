"""Descriptions of panels, from the help texts of their metrics."""

from hookline_dashboards.dialect_series import Series
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Panel
from hookline_metrics.metric import Metric


def describe(panel: Panel, names: Names) -> str:
    """Returns one paragraph per metric of the panel."""
    found = names.series_in(_text(panel))
    return "\n\n".join(map(_paragraph, found))


def metrics_of(panel: Panel, names: Names) -> tuple[Metric, ...]:
    """Returns the panel's metrics, in the order of its queries."""
    return names.used_in(_text(panel))


def _text(panel: Panel) -> str:
    return " ".join(query.expression for query in panel.queries)


def _paragraph(series: Series) -> str:
    text = f"`{series.name}`: {series.help}"
    feature = series.metric.feature
    if feature is None:
        return text
    return f"{text} Requires `--{feature}`{feature.note}."
