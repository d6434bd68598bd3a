"""Metrics of the observer process; without one they are 0."""

from hookline_metrics.front_end_parts import ObserverStats
from hookline_metrics.metric import Kind, Metric, Scope, Stability
from hookline_metrics.readings import Reading, one

OBSERVER_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_observer_front_ends",
        kind=Kind.GAUGE,
        unit="front_ends",
        help="Front ends that the observer process hears; 0 without an observer "
        "process.",
        scope=Scope.FRONT_END,
        value=Reading(ObserverStats, lambda observer: one(observer.front_ends)),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_observer_wait_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time that the oldest of a front end's latest notices waited there until "
        "they were sent to the observer process; of several front ends the longest.",
        scope=Scope.FRONT_END,
        value=Reading(ObserverStats, lambda observer: one(observer.waited_seconds)),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_observer_dropped_notices",
        kind=Kind.COUNTER,
        unit="notices",
        help="Notices for the loggers, such as a step each, that front ends dropped "
        "because the observer process did not take them; also counted in the dropped "
        "batches of each logger.",
        scope=Scope.FRONT_END,
        value=Reading(ObserverStats, lambda observer: one(observer.dropped)),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_observer_restarts",
        kind=Kind.COUNTER,
        unit="restarts",
        help="How often the observer process has been replaced, because it had ended.",
        scope=Scope.FRONT_END,
        value=Reading(ObserverStats, lambda observer: one(observer.restarts)),
        stability=Stability.EXPERIMENTAL,
    ),
)
