"""Metrics of the ranks that compute steps together."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.config.parallel import MOST_RANKS
from hookline.metrics.metric import Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, StepReading, one


def _expert_tokens(step: StepReading) -> Iterable[Point]:
    by_rank = step.record.rank_use.expert_tokens
    return [((str(rank),), tokens, 1) for rank, tokens in enumerate(by_rank)]


def _busiest(step: StepReading) -> Iterable[Point]:
    """The most of each stage's ranks, times their number."""
    by_rank, size = step.record.rank_use.expert_tokens, step.facts.tensor_parallel_size
    stages = [by_rank[at : at + size] for at in range(0, len(by_rank), size)]
    return one(size * sum(max(stage) for stage in stages))


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
            lambda step: one(step.record.rank_use.exchange_ns / NANOSECONDS),
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
            lambda step: one(step.record.rank_use.handover_ns / NANOSECONDS),
        ),
    ),
    Metric(
        name="hookline_expert_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="With enable-expert-parallel, what the experts of each rank computed: a "
        "token counts once for each expert of each layer that was chosen for it.",
        labels=(Label("rank", cap=MOST_RANKS),),
        value=Reading(StepReading, _expert_tokens),
    ),
    Metric(
        name="hookline_expert_busiest_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="With enable-expert-parallel, what the experts of all ranks could have "
        "computed in the time of the busiest one: its tokens in each step and stage, "
        "times the number of ranks. Its rate over that of "
        "hookline_expert_tokens_total, summed over ranks, is the imbalance: 1 if all "
        "have as much to compute, the number of ranks if one has everything.",
        value=Reading(StepReading, _busiest),
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
