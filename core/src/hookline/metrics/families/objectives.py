"""Metrics of objectives: which requests met theirs, and which phase broke the rest."""

from collections.abc import Iterable

from hookline.metrics.metric import Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, by_label
from hookline.slo import OBJECTIVES, Phase
from hookline.stats import FinishedRequest


def _outcome(request: FinishedRequest) -> Iterable[Point]:
    if not request.is_slo_judged:
        return ()
    return by_label({"missed" if request.slo_misses else "met": 1})


def _misses(request: FinishedRequest) -> Iterable[Point]:
    return [((miss.objective, miss.phase.value), 1, 1) for miss in request.slo_misses]


SLO_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_slo_requests",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests with objectives by whether they met all of them. Failed ones "
        "have missed; abandoned ones count only if they had missed one by then; "
        "rejected ones do not count.",
        labels=(Label("outcome", ("met", "missed")),),
        value=Reading(FinishedRequest, _outcome),
    ),
    Metric(
        name="hookline_slo_misses",
        kind=Kind.COUNTER,
        unit="misses",
        help="Objectives missed, by objective and by the phase that took most of the "
        "time that the objective bounds. The objective success is missed by requests "
        "that failed.",
        labels=(
            Label("objective", (*OBJECTIVES, "success")),
            Label("phase", tuple(phase.value for phase in Phase)),
        ),
        value=Reading(FinishedRequest, _misses),
    ),
)
