"""Descriptions of panels, from the help texts of their metrics."""

from hookline.metrics.metric import Metric
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Panel


def describe(panel: Panel, names: Names) -> str:
    """Returns one paragraph per metric of the panel."""
    return "\n\n".join(map(_paragraph, metrics_of(panel, names)))


def metrics_of(panel: Panel, names: Names) -> tuple[Metric, ...]:
    """Returns the panel's metrics, in the order of its queries."""
    return names.used_in(" ".join(query.expression for query in panel.queries))


def _paragraph(metric: Metric) -> str:
    text = f"`{metric.exposed(metric.name)}`: {metric.help}"
    if metric.feature is None:
        return text
    return f"{text} Requires `--{metric.feature}`."
