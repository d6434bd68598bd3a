"""Metrics of a server's API keys."""

from hookline_metrics.front_end_parts import ApiKeyStats
from hookline_metrics.metric import Kind, Metric, Scope
from hookline_metrics.readings import Reading, one

API_KEY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_api_keys_stale_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time for which the file of API keys has been missing or wrong, so that "
        "removed keys are still valid; 0 while it can be read.",
        scope=Scope.FRONT_END,
        value=Reading(ApiKeyStats, lambda stats: one(stats.stale_seconds)),
    ),
)
