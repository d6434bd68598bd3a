"""Metrics of service-level objectives: met or missed, and by which phase."""

from collections.abc import Iterable

from hookline.config.readers import OBJECTIVES
from hookline.stats.finished_request import FinishedRequest
from hookline.tells import Tells
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, by_label
from hookline_metrics.slo import Phase, judge, misses_of


def _outcome(request: FinishedRequest) -> Iterable[Point]:
    if (misses := judge(request)) is None:
        return ()
    return by_label({"missed" if misses else "met": 1})


def _misses(request: FinishedRequest) -> Iterable[Point]:
    return [((miss.objective, miss.phase.value), 1, 1) for miss in misses_of(request)]


SLO_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_slo_requests",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests with objectives, by whether they met all of them. Failed "
        "requests count as missed; aborted requests count only if they had "
        "already missed one; rejected requests do not count.",
        labels=(Label("outcome", ("met", "missed")),),
        value=Reading(FinishedRequest, _outcome),
        needs=(Tells.REQUESTS,),
    ),
    Metric(
        name="hookline_slo_misses",
        kind=Kind.COUNTER,
        unit="misses",
        help="Missed objectives by objective and by the phase that took most of the "
        "bounded time. Failed requests miss the objective success.",
        labels=(
            Label("objective", (*OBJECTIVES, "success")),
            Label("phase", tuple(phase.value for phase in Phase)),
        ),
        value=Reading(FinishedRequest, _misses),
        needs=(Tells.REQUESTS,),
    ),
)
