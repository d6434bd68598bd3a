"""Metrics of the number of engines: what it is, what it should be, and why."""

from collections.abc import Iterable

from hookline_metrics.front_end_parts import ScalingStats
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import Reading, by_label, one

CAUSES = ("request", "steady", "demand", "trend", "quiet", "minimum", "maximum")


def _limits(stats: ScalingStats) -> Iterable[Point]:
    if stats.minimum is None or stats.maximum is None:
        return ()
    return by_label({"minimum": stats.minimum, "maximum": stats.maximum})


SCALING_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_engines",
        kind=Kind.GAUGE,
        unit="engines",
        help="Engines of the server: those that get requests (serving), that load "
        "their model beside them (starting), and that finish their requests and end "
        "(leaving).",
        labels=(Label("state", ("serving", "starting", "leaving")),),
        scope=Scope.FRONT_END,
        value=Reading(
            ScalingStats,
            lambda stats: by_label(
                {
                    "serving": stats.serving,
                    "starting": stats.starting,
                    "leaving": stats.leaving,
                }
            ),
        ),
    ),
    Metric(
        name="hookline_engines_wanted",
        kind=Kind.GAUGE,
        unit="engines",
        help="Number of engines that was chosen last, at first that of the start.",
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, lambda stats: one(stats.wanted)),
    ),
    Metric(
        name="hookline_engines_limit",
        kind=Kind.GAUGE,
        unit="engines",
        help="Least and greatest number of engines that --autoscale chooses; no series "
        "without it.",
        labels=(Label("bound", cap=None),),
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, _limits),
    ),
    Metric(
        name="hookline_scaling_decisions",
        kind=Kind.COUNTER,
        unit="decisions",
        help="Choices of a number of engines: by POST /scale (request), or by "
        "--autoscale because the load asks for it now (demand) or will by the time an "
        "engine has started (trend), has been low for long (quiet), asks for less or "
        "more than is allowed (minimum, maximum), or is met (steady).",
        labels=(Label("reason", CAUSES),),
        scope=Scope.FRONT_END,
        value=Reading(
            ScalingStats,
            lambda stats: [((why,), count, 1) for why, count in stats.decisions],
        ),
    ),
    Metric(
        name="hookline_engines_added",
        kind=Kind.COUNTER,
        unit="engines",
        help="Engines that were started while others served, and joined them.",
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, lambda stats: one(stats.added)),
    ),
    Metric(
        name="hookline_engines_removed",
        kind=Kind.COUNTER,
        unit="engines",
        help="Engines that left while others served, after their requests had ended.",
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, lambda stats: one(stats.removed)),
    ),
    Metric(
        name="hookline_engine_starts_failed",
        kind=Kind.COUNTER,
        unit="starts",
        help="Engines that were to join others and could not be started.",
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, lambda stats: one(stats.failed)),
    ),
    Metric(
        name="hookline_engine_start_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time that engines took to start, of those that joined others, from the "
        "decision to the first request that they could get.",
        scope=Scope.FRONT_END,
        value=Reading(ScalingStats, lambda stats: one(stats.start_seconds)),
    ),
)
