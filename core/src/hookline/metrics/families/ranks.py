"""Metrics of the ranks that compute steps together."""

from hookline.clock import NANOSECONDS
from hookline.metrics.metric import Kind, Metric
from hookline.metrics.readings import Reading, StepReading, one

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
