"""Metrics of load balancing among engines, and of requests that move."""

from hookline.front_end_parts import PlacementStats
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.metric import Kind, Label, Metric, Scope
from hookline_metrics.readings import Reading, one

REASONS = ("load", "moved", "named", "only", "prefix", "spill", "turn")

PLACEMENT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_requests_placed",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests that the server sent to an engine, by why it was chosen: of the "
        "least load (load), its own has ended (moved), named by the client or a health "
        "check (named), the only one that works (only), most of the prompt is cached "
        "(prefix), more is cached where the load is too high (spill), in turn (turn).",
        labels=(Label("engine", cap=None), Label("reason", REASONS)),
        scope=Scope.FRONT_END,
        value=Reading(
            PlacementStats,
            lambda stats: [
                ((engine, reason), count, 1) for engine, reason, count in stats.requests
            ],
        ),
    ),
    Metric(
        name="hookline_requests_moved",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests that moved to another engine when this one ended, because their "
        "clients had got nothing yet.",
        value=Reading(IterationStats, lambda iteration: one(iteration.moved)),
    ),
    Metric(
        name="hookline_requests_taken_over",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests that moved to this engine from one that had ended, which counts "
        "them as received. Of each engine, received + taken over = finished + moved + "
        "in flight.",
        value=Reading(IterationStats, lambda iteration: one(iteration.migrated_in)),
    ),
)
