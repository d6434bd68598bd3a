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
        "the fitted costs of its steps. No series until they are fitted, as for the "
        "other estimates. See docs/saturation.md.",
    ),
    Metric(
        name="hookline_capacity_concurrent_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help="Largest number of concurrent requests like the recent ones: that all "
        "take part in each step, above which requests wait (stability); with which "
        "they meet their objectives (slo), those of the request that ended last with "
        "any. 0 if not even one meets them.",
        labels=(Label("bound", tuple(_BOUNDS)),),
        value=Reading(LiveReading, _concurrency),
        is_fleeting=True,
        stability=Stability.EXPERIMENTAL,
    ),
    _estimate(
        "predicted_time_to_first_token_seconds",
        TTFT,
        "seconds",
        "Time to first token that a request like the recent ones can expect if it "
        "comes now, on the front end's clock.",
    ),
    _estimate(
        "predicted_inter_token_seconds",
        INTER_TOKEN,
        "seconds",
        "Time between two tokens of a request at the present load, of at least one "
        "request.",
    ),
    Metric(
        name="hookline_capacity_error_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Error of each estimate relative to it, at most 10. For capacity and "
        "concurrency the standard error, of the fit and of the mean request; for the "
        "two times the mean deviation of recent requests from what was predicted.",
        labels=(Label("estimate", ESTIMATES),),
        value=Reading(LiveReading, lambda live: by_label(live.capacity.errors)),
        is_fleeting=True,
        stability=Stability.EXPERIMENTAL,
    ),
)
