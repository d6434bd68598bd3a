"""Metrics of the server's event loop and of its messages to engine processes."""

from hookline.front_end_parts import TransportStats
from hookline_metrics.front_end_parts import EventLoopStats
from hookline_metrics.metric import Kind, Metric, Scope
from hookline_metrics.readings import Reading, one

EVENT_LOOP_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_event_loop_lag_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Maximum delay of a callback of the server's event loop in the last ten "
        "seconds.",
        scope=Scope.FRONT_END,
        value=Reading(EventLoopStats, lambda loop: one(loop.lag_seconds)),
    ),
    Metric(
        name="hookline_event_loop_stalls",
        kind=Kind.COUNTER,
        unit="stalls",
        help="Number of times that the server's event loop did not turn for more than "
        "a second.",
        scope=Scope.FRONT_END,
        value=Reading(EventLoopStats, lambda loop: one(loop.stalls)),
    ),
    Metric(
        name="hookline_transport_messages_dropped",
        kind=Kind.COUNTER,
        unit="messages",
        help="Messages between the server and its engine processes that were dropped "
        "because they did not have the key of the process or were not valid.",
        scope=Scope.FRONT_END,
        value=Reading(TransportStats, lambda transport: one(transport.dropped)),
    ),
)
