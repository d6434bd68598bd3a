"""Metrics of requests' bodies."""

from collections.abc import Iterable

from hookline_metrics.front_end_parts import IgnoredStats, UnknownFieldStats
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import Reading, by_label


def _ignored(stats: IgnoredStats) -> Iterable[Point]:
    return [((api, kind), count, 1) for api, kind, count in stats.elements]


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
    Metric(
        name="hookline_request_ignored_elements",
        kind=Kind.COUNTER,
        unit="elements",
        help="What the server could not use of requests and left out: blocks, content "
        "parts, items, tools and fields by their type, arguments of past calls that "
        "are no object, and values above a limit.",
        labels=(
            Label("api", ("chat", "completions", "messages", "responses")),
            Label("kind", cap=128),
        ),
        scope=Scope.FRONT_END,
        value=Reading(IgnoredStats, _ignored),
    ),
)
