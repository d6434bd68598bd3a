"""What a panel tells its reader: what its metrics are, in the catalogue's words."""

from hookline.metrics.metric import Metric
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Panel


def describe(panel: Panel, names: Names) -> str:
    """A paragraph for each metric of the panel."""
    return "\n\n".join(map(_paragraph, metrics_of(panel, names)))


def metrics_of(panel: Panel, names: Names) -> tuple[Metric, ...]:
    """The metrics that the panel draws, in the order of its queries."""
    return names.used_in(" ".join(query.expression for query in panel.queries))


def _paragraph(metric: Metric) -> str:
    text = f"`{metric.exposed(metric.name)}`: {metric.help}"
    if metric.feature is None:
        return text
    return f"{text} Only with `--{metric.feature}`."
