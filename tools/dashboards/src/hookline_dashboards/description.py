"""Descriptions of panels, from the help texts of their metrics."""

from hookline_dashboards.dialect_series import Series
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Panel


def describe(panel: Panel, names: Names) -> str:
    """Returns one paragraph per metric of the panel."""
    expressions = " ".join(query.expression for query in panel.queries)
    return "\n\n".join(map(_paragraph, names.series_in(expressions)))


def _paragraph(series: Series) -> str:
    text = f"`{series.name}`: {series.help}"
    feature = series.metric.feature
    if feature is None:
        return text
    return f"{text} Requires `--{feature}`{feature.note}."
