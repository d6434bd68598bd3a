"""Metrics of the responses that a server keeps."""

from typing import get_args

from hookline_metrics.front_end_parts import ResponseEviction, ResponseStoreStats
from hookline_metrics.metric import Kind, Label, Metric, Scope
from hookline_metrics.readings import Reading, by_label, one

STORED_RESPONSE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_stored_responses",
        kind=Kind.GAUGE,
        unit="responses",
        help="Responses of /v1/responses that the server keeps.",
        scope=Scope.FRONT_END,
        value=Reading(ResponseStoreStats, lambda stats: one(stats.entries)),
    ),
    Metric(
        name="hookline_stored_response_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Memory that kept responses take, about, their input included.",
        scope=Scope.FRONT_END,
        value=Reading(ResponseStoreStats, lambda stats: one(stats.bytes)),
    ),
    Metric(
        name="hookline_stored_response_evictions",
        kind=Kind.COUNTER,
        unit="evictions",
        help="Responses no longer kept, because there were too many (count), they were "
        "too large (bytes), or had not been used for too long (age).",
        labels=(Label("reason", get_args(ResponseEviction)),),
        scope=Scope.FRONT_END,
        value=Reading(
            ResponseStoreStats, lambda stats: by_label(dict(stats.evictions))
        ),
    ),
)
