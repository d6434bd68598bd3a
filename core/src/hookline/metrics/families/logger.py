"""Metrics of the loggers themselves: whether their lanes keep up."""

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
        "Batches that wait for the logger.",
        lambda lane: lane.depth,
    ),
    _of_lane(
        "breaker_open",
        Kind.GAUGE,
        "1",
        "1 while the logger is not called, or only on trial, because it failed too "
        "often in a row; else 0.",
        lambda lane: float(lane.breaker != "closed"),
    ),
    _of_lane(
        "delivered_batches",
        Kind.COUNTER,
        "batches",
        "Batches handed to the logger.",
        lambda lane: lane.delivered,
    ),
    _of_lane(
        "dropped_batches",
        Kind.COUNTER,
        "batches",
        "Batches that the logger never saw, because its lane was full or its breaker "
        "open.",
        lambda lane: lane.dropped,
    ),
    _of_lane(
        "errors",
        Kind.COUNTER,
        "errors",
        "Calls of the logger that raised.",
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
    help="Times that a label's value was told as other, because it was not on the "
    "label's list or the label had its most values.",
    labels=(Label("label", cap=32),),
    scope=Scope.FRONT_END,
    value=Reading(FoldedValues, lambda folded: by_label(folded.counts)),
    stability=Stability.EXPERIMENTAL,
)
