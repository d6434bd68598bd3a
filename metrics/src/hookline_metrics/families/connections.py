"""Metrics of the connections of a server's clients."""

from hookline_metrics.front_end_parts import ConnectionStats
from hookline_metrics.metric import Kind, Label, Metric, Scope
from hookline_metrics.readings import Reading, one

REASONS = (
    "keep_alive",
    "header_timeout",
    "body_timeout",
    "write_timeout",
    "malformed",
    "tls_handshake",
    "evicted",
    "refused",
    "drained",
)

CONNECTION_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_http_connections",
        kind=Kind.GAUGE,
        unit="connections",
        help="Open connections of clients.",
        labels=(),
        scope=Scope.FRONT_END,
        value=Reading(ConnectionStats, lambda stats: one(stats.open)),
    ),
    Metric(
        name="hookline_http_connections_maximum",
        kind=Kind.GAUGE,
        unit="connections",
        help="Maximum number of open connections of clients.",
        labels=(),
        scope=Scope.FRONT_END,
        value=Reading(ConnectionStats, lambda stats: one(stats.maximum)),
    ),
    Metric(
        name="hookline_http_connections_closed",
        kind=Kind.COUNTER,
        unit="connections",
        help="Connections that the server closed: idle (keep_alive), too slow "
        "(header_timeout, body_timeout, write_timeout), not valid HTTP (malformed), "
        "without TLS (tls_handshake), at the maximum number of connections (idle ones: "
        "evicted; new ones: refused), or at its shutdown (drained).",
        labels=(Label("reason", REASONS),),
        scope=Scope.FRONT_END,
        value=Reading(
            ConnectionStats,
            lambda stats: [((reason,), count, 1) for reason, count in stats.closed],
        ),
    ),
    Metric(
        name="hookline_http_accept_errors",
        kind=Kind.COUNTER,
        unit="errors",
        help="Connections that could not be accepted, such as for lack of file "
        "descriptors.",
        labels=(),
        scope=Scope.FRONT_END,
        value=Reading(ConnectionStats, lambda stats: one(stats.accept_errors)),
    ),
)
