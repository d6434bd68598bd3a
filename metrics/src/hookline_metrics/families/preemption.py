"""Metrics of preemptions: how often, of how many tokens, and who waits for its turn."""

from collections.abc import Iterable

from hookline.stats.scheduler_stats import SchedulerStats
from hookline.tells import Tells
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, by_label, one


def _tokens(stats: SchedulerStats) -> Iterable[Point]:
    return by_label(
        {
            "prompt": stats.totals.preempted_prompt_tokens,
            "output": stats.totals.preempted_output_tokens,
        }
    )


PREEMPTION_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_preemptions",
        kind=Kind.COUNTER,
        unit="preemptions",
        help="Preemptions: a running request loses its KV blocks and returns to the "
        "waiting queue.",
        value=Reading(StateReading, lambda state: one(state.stats.totals.preemptions)),
        needs=(Tells.EVENTS,),
    ),
    Metric(
        name="hookline_preempted_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens of requests when they were preempted: those of their prompts, and "
        "those generated before (output). Each preemption counts them again; see "
        "hookline_recomputed_tokens for what was computed again.",
        labels=(Label("kind", ("prompt", "output")),),
        value=Reading(StateReading, lambda state: _tokens(state.stats)),
    ),
    Metric(
        name="hookline_requests_preempted",
        kind=Kind.GAUGE,
        unit="requests",
        help="Waiting requests that were preempted and have not been scheduled again.",
        value=Reading(StateReading, lambda state: one(state.stats.preempted)),
    ),
)
