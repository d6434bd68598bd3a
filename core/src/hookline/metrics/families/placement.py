"""Metrics of load balancing among engines."""

from hookline.front_end_parts import PlacementStats
from hookline.metrics.metric import Kind, Label, Metric, Scope
from hookline.metrics.readings import Reading

REASONS = ("load", "named", "only", "prefix", "spill", "turn")

PLACEMENT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_requests_placed",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests that the server sent to an engine, by why it was chosen: of the "
        "least load (load), named by the client or a health check (named), the only "
        "one that works (only), most of the prompt is cached (prefix), more is cached "
        "where the load is too high (spill), in turn (turn).",
        labels=(Label("engine", cap=None), Label("reason", REASONS)),
        scope=Scope.FRONT_END,
        value=Reading(
            PlacementStats,
            lambda stats: [
                ((engine, reason), count, 1) for engine, reason, count in stats.requests
            ],
        ),
    ),
)
