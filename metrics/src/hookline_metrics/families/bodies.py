"""Metrics of requests' bodies."""

from hookline_metrics.front_end_parts import UnknownFieldStats
from hookline_metrics.metric import Kind, Label, Metric, Scope
from hookline_metrics.readings import Reading, by_label

BODY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_request_unknown_fields",
        kind=Kind.COUNTER,
        unit="fields",
        help="Fields of requests' bodies that the server ignored, because it does not "
        "know them; after the first names, further ones count as other.",
        labels=(Label("field"),),
        scope=Scope.FRONT_END,
        value=Reading(UnknownFieldStats, lambda stats: by_label(dict(stats.fields))),
    ),
)
