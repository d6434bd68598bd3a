"""Metrics of the ranks that compute steps together."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline.config.parallel import MOST_RANKS
from hookline.stats.scheduler_stats import ExpertStats
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, StepReading, one


def _expert_tokens(state: StateReading) -> Iterable[Point]:
    by_rank = state.stats.experts.tokens
    return [((str(rank),), tokens, 1) for rank, tokens in enumerate(by_rank)]


def _of_experts(value: Callable[[ExpertStats], float]) -> Reading[StateReading]:
    """Reads a total of an engine's whole experts."""
    return Reading(StateReading, lambda state: one(value(state.stats.experts)))


RANK_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_rank_exchange_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time that the rank which samples spent on exchanges with the other ranks "
        "of its stage, waiting for them included. Its rate over that of "
        "hookline_model_forward_seconds_total is the share of the forward pass "
        "that tensor parallelism takes.",
        value=Reading(
            StepReading,
            lambda step: one(step.record.execution.rank_use.exchange_ns / NANOSECONDS),
        ),
    ),
    Metric(
        name="hookline_rank_handover_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time in which no rank could compute a step, because its plan was on its "
        "way to the ranks or its result to the engine.",
        value=Reading(
            StepReading,
            lambda step: one(step.record.execution.rank_use.handover_ns / NANOSECONDS),
        ),
    ),
    Metric(
        name="hookline_expert_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="With enable-expert-parallel, what the experts of each rank computed, for "
        "whichever engine: a token counts once for each expert of each layer that was "
        "chosen for it.",
        labels=(Label("rank", cap=MOST_RANKS),),
        value=Reading(StateReading, _expert_tokens),
    ),
    Metric(
        name="hookline_expert_busiest_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="With enable-expert-parallel, what the experts of all ranks of the engine "
        "could have computed in the time of the busiest one of all engines: its tokens "
        "in each step and stage, times the number of the engine's ranks. Its rate over "
        "that of hookline_expert_tokens_total, both summed over ranks and engines, is "
        "the imbalance: 1 if all have as much to compute, the number of ranks if one "
        "has everything.",
        value=_of_experts(lambda experts: experts.busiest_tokens),
    ),
    Metric(
        name="hookline_expert_wait_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="With enable-expert-parallel and several engines, time that the engine's "
        "own steps waited for ranks of all engines to write tokens or results of "
        "experts. Its rate over that of hookline_model_forward_seconds_total is the "
        "share of the forward pass that keeping step takes.",
        value=_of_experts(lambda experts: experts.wait_ns / NANOSECONDS),
    ),
    Metric(
        name="hookline_dummy_steps",
        kind=Kind.COUNTER,
        unit="steps",
        help="With enable-expert-parallel and several engines, steps in which the "
        "engine had no work and only its experts computed, for other engines. They are "
        "no steps in any other metric.",
        value=_of_experts(lambda experts: experts.dummy_steps),
    ),
    Metric(
        name="hookline_pipeline_stage_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time that the pipeline stages had while steps were in flight: their "
        "number times the time. What the rate of hookline_model_forward_seconds_total "
        "leaves of its rate is the bubble, in which a stage waited for another one, "
        "for the scheduler or for samples.",
        value=Reading(
            StepReading,
            lambda step: one(
                step.facts.pipeline_parallel_size * step.record.execute_ns / NANOSECONDS
            ),
        ),
    ),
)
