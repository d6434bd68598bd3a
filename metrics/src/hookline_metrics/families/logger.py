"""Metrics of the loggers: queue depth, drops and errors of each."""

from collections.abc import Callable, Iterable

from hookline.payloads import PageStats
from hookline_metrics.front_end_parts import ObserverStats
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope, Stability
from hookline_metrics.readings import FoldedValues, PageDelay, Reading, by_label, one
from hookline_registry import LaneStats

LOGGER = Label("logger", cap=64)


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
        labels=(LOGGER,),
        scope=Scope.FRONT_END,
        value=Reading(LaneStats, lambda lane: by_label({lane.name: number(lane)})),
        stability=Stability.EXPERIMENTAL,
    )


def _page_failures(pages: PageStats) -> Iterable[Point]:
    return (
        ((pages.logger, "raised"), pages.raised, 1),
        ((pages.logger, "timeout"), pages.timed_out, 1),
        ((pages.logger, "busy"), pages.refused, 1),
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
    Metric(
        name="hookline_page_behind_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Age of the oldest news that is not on this page, because the logger or a "
        "server did not tell it in time; 0 if nothing is missing.",
        scope=Scope.FRONT_END,
        value=Reading(PageDelay, lambda delay: one(delay.seconds)),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_logger_left_out",
        kind=Kind.GAUGE,
        unit="1",
        help="1 for a logger that does not run any more, because it has ended the "
        "observer process; others have no such series.",
        labels=(LOGGER,),
        scope=Scope.FRONT_END,
        value=Reading(
            ObserverStats,
            lambda observer: by_label(dict.fromkeys(observer.left_out, 1)),
        ),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_logger_pages_hung",
        kind=Kind.GAUGE,
        unit="pages",
        help="Threads of the logger's pages held by handlers that are late.",
        labels=(LOGGER,),
        scope=Scope.FRONT_END,
        value=Reading(PageStats, lambda pages: by_label({pages.logger: pages.hung})),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_logger_page_failures",
        kind=Kind.COUNTER,
        unit="failures",
        help="Failed requests for the logger's pages: its handler raised or was late, "
        "or was not called because its threads were busy.",
        labels=(LOGGER, Label("reason", ("raised", "timeout", "busy"))),
        scope=Scope.FRONT_END,
        value=Reading(PageStats, _page_failures),
        stability=Stability.EXPERIMENTAL,
    ),
)

FOLDED = Metric(
    name="hookline_label_values_folded",
    kind=Kind.COUNTER,
    unit="values",
    help="Label values replaced by other, because they were not in the allow-list or "
    "the label had reached its limit of values.",
    labels=(Label("label", cap=64),),
    scope=Scope.FRONT_END,
    value=Reading(FoldedValues, lambda folded: by_label(folded.counts)),
    stability=Stability.EXPERIMENTAL,
)
