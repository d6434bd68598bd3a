"""Metrics of the server's log."""

from hookline_metrics.front_end_parts import LogStats
from hookline_metrics.metric import Kind, Label, Metric, Scope
from hookline_metrics.readings import Reading, by_label

LOG_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_log_lines_dropped",
        kind=Kind.COUNTER,
        unit="lines",
        help="Log lines of the server that were not written, because nobody read the "
        "log (unread) or because one place logged too many (repeated).",
        labels=(Label("reason", ("unread", "repeated")),),
        scope=Scope.FRONT_END,
        value=Reading(
            LogStats,
            lambda log: by_label({"unread": log.unread, "repeated": log.repeated}),
        ),
    ),
)
