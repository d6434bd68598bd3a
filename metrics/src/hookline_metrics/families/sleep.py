"""Metrics of the calls that put engines to sleep and wake them up."""

from collections.abc import Iterable

from hookline.front_end_parts import SleepOperation
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import Reading, by_label

_OPERATION = Label("operation", ("sleep", "wake_up"))


def _seconds(operation: SleepOperation) -> Iterable[Point]:
    if operation.seconds is None:
        return ()
    return by_label({operation.operation: operation.seconds})


SLEEP_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_sleep_operation_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time from a call of sleep or wake_up to the last engine's reply; those "
        "that were refused or took too long are included.",
        labels=(_OPERATION,),
        buckets=BucketFamily.SLEEP_OPERATION,
        scope=Scope.FRONT_END,
        value=Reading(SleepOperation, _seconds),
    ),
    Metric(
        name="hookline_sleep_operations_in_flight",
        kind=Kind.GAUGE,
        unit="operations",
        help="Calls of sleep and wake_up whose engines have not replied yet.",
        labels=(_OPERATION,),
        scope=Scope.FRONT_END,
        value=Reading(
            SleepOperation,
            lambda operation: by_label({operation.operation: operation.in_flight}),
        ),
    ),
)
