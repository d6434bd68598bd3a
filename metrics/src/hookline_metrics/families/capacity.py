"""Metrics of what an engine can serve, by the fitted costs of its steps."""

from collections.abc import Iterable

from hookline_metrics.metric import Kind, Label, Metric, Point, Stability
from hookline_metrics.readings import LiveReading, Reading, by_label, one
from hookline_metrics.saturation import ESTIMATES
from hookline_metrics.saturation.capacity import (
    CAPACITY,
    INTER_TOKEN,
    STABLE,
    TTFT,
    WITHIN_SLO,
)

_BOUNDS = {"stability": STABLE, "slo": WITHIN_SLO}


def _concurrency(live: LiveReading) -> Iterable[Point]:
    found = ((label, live.capacity.value(name)) for label, name in _BOUNDS.items())
    return [((label,), value, 1) for label, value in found if value is not None]


def _estimate(name: str, estimate: str, unit: str, text: str) -> Metric:
    return Metric(
        name=f"hookline_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        value=Reading(LiveReading, lambda live: one(live.capacity.value(estimate))),
        is_fleeting=True,
        stability=Stability.EXPERIMENTAL,
    )


CAPACITY_METRICS: tuple[Metric, ...] = (
    _estimate(
        "capacity_requests_per_second",
        CAPACITY,
        "1",
        "Most requests like the recent ones that the engine can serve per second, by "
        "the fitted costs of its steps; without a series until they are fitted. See "
        "docs/saturation.md.",
    ),
    Metric(
        name="hookline_capacity_concurrent_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help="Most concurrent requests like the recent ones of which none waits "
        "(stability), or that meet their objectives (slo), the latest ones; 0 if not "
        "even one does.",
        labels=(Label("bound", tuple(_BOUNDS)),),
        value=Reading(LiveReading, _concurrency),
        is_fleeting=True,
        stability=Stability.EXPERIMENTAL,
    ),
    _estimate(
        "predicted_time_to_first_token_seconds",
        TTFT,
        "seconds",
        "Time to first token that a request like the recent ones can expect now.",
    ),
    _estimate(
        "predicted_inter_token_seconds",
        INTER_TOKEN,
        "seconds",
        "Time between two tokens at the present load, of at least one request.",
    ),
    Metric(
        name="hookline_capacity_error_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Relative error of each estimate, at most 10: the standard error of fit "
        "and mean request; of times the mean deviation from what was predicted.",
        labels=(Label("estimate", ESTIMATES),),
        value=Reading(LiveReading, lambda live: by_label(live.capacity.errors)),
        is_fleeting=True,
        stability=Stability.EXPERIMENTAL,
    ),
)
