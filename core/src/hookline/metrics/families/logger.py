"""Metrics of the loggers: queue depth, drops and errors of each."""

from collections.abc import Callable

from hookline.metrics.metric import Kind, Label, Metric, Scope, Stability
from hookline.metrics.readings import FoldedValues, Reading, by_label
from hookline_registry import LaneStats


def _of_lane(
    name: str,
    kind: Kind,
    unit: str,
    text: str,
    number: Callable[[LaneStats], float],
) -> Metric:
    return Metric(
        name=f"hookline_logger_{name}",
        kind=kind,
        unit=unit,
        help=text,
        labels=(Label("logger", cap=64),),
        scope=Scope.FRONT_END,
        value=Reading(LaneStats, lambda lane: by_label({lane.name: number(lane)})),
        stability=Stability.EXPERIMENTAL,
    )


LOGGER_METRICS: tuple[Metric, ...] = (
    _of_lane(
        "lane_depth",
        Kind.GAUGE,
        "batches",
        "Batches queued for the logger.",
        lambda lane: lane.depth,
    ),
    _of_lane(
        "breaker_open",
        Kind.GAUGE,
        "1",
        "1 while the logger is disabled, or only tried now and then, after repeated "
        "failures; otherwise 0.",
        lambda lane: float(lane.breaker != "closed"),
    ),
    _of_lane(
        "delivered_batches",
        Kind.COUNTER,
        "batches",
        "Batches delivered to the logger.",
        lambda lane: lane.delivered,
    ),
    _of_lane(
        "dropped_batches",
        Kind.COUNTER,
        "batches",
        "Batches dropped because the logger's queue was full or its breaker open.",
        lambda lane: lane.dropped,
    ),
    _of_lane(
        "errors",
        Kind.COUNTER,
        "errors",
        "Calls of the logger that raised an exception.",
        lambda lane: lane.errors,
    ),
    _of_lane(
        "busy_seconds",
        Kind.COUNTER,
        "seconds",
        "Time spent inside the logger.",
        lambda lane: lane.busy_seconds,
    ),
)

FOLDED = Metric(
    name="hookline_label_values_folded",
    kind=Kind.COUNTER,
    unit="values",
    help="Label values replaced by other, because they were not in the allow-list or "
    "the label had reached its limit of values.",
    labels=(Label("label", cap=32),),
    scope=Scope.FRONT_END,
    value=Reading(FoldedValues, lambda folded: by_label(folded.counts)),
    stability=Stability.EXPERIMENTAL,
)
