"""Metrics of steps: what each one cost and what it brought."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, StepReading, by_label, one
from hookline.stats import FirstToken, IterationStats


def _phases(step: StepReading) -> Iterable[Point]:
    record = step.record
    return by_label(
        {
            "schedule": (record.scheduled_at - record.started_at) / NANOSECONDS,
            "execute": record.execute_ns / NANOSECONDS,
            "update": (record.ended_at - record.executed_at) / NANOSECONDS,
        }
    )


def _scheduled(step: StepReading) -> Iterable[Point]:
    record = step.record
    return by_label({"prefill": record.prefill_tokens, "decode": record.decode_tokens})


def _prompt_tokens(iteration: IterationStats) -> Iterable[Point]:
    return by_label(
        {
            "computed": iteration.prompt_tokens_computed,
            "local_cache": iteration.prompt_tokens_local,
            "external": iteration.prompt_tokens_external,
        }
    )


def _inter_token(iteration: IterationStats) -> Iterable[Point]:
    return [((), seconds, tokens) for seconds, tokens in iteration.inter_token_seconds]


STEP_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_step_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Duration of a step's phases: choosing the batch, computing it, and "
        "taking in its tokens. The three add up to the step; with asynchronous "
        "scheduling the first and the last go on beside the second of another step.",
        labels=(Label("phase", ("schedule", "execute", "update")),),
        buckets=BucketFamily.STEP_DURATION,
        value=Reading(StepReading, _phases),
    ),
    Metric(
        name="hookline_step_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help="Tokens that went through the model in a step, of prompts and of decodes.",
        buckets=BucketFamily.ITERATION_TOKENS,
        value=Reading(
            StepReading,
            lambda step: one(step.record.prefill_tokens + step.record.decode_tokens),
        ),
    ),
    Metric(
        name="hookline_prompt_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Prompt tokens of requests whose first token came, by where their KV came "
        "from: computed here, the local prefix cache, a KV connector. The sum is all "
        "prompt tokens.",
        labels=(Label("source", ("computed", "local_cache", "external")),),
        value=Reading(IterationStats, _prompt_tokens),
    ),
    Metric(
        name="hookline_generation_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens generated.",
        value=Reading(
            IterationStats, lambda iteration: one(iteration.generation_tokens)
        ),
    ),
    Metric(
        name="hookline_time_to_first_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="First token - arrival, both on the front end's clock; queueing and "
        "preemption included.",
        buckets=BucketFamily.TIME_TO_FIRST_TOKEN,
        value=Reading(FirstToken, lambda first: one(first.seconds)),
    ),
    Metric(
        name="hookline_inter_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time between a request's consecutive steps with tokens, divided by the "
        "tokens the later one brought; observed once for each of these tokens. "
        "Preemption included.",
        buckets=BucketFamily.INTER_TOKEN_LATENCY,
        value=Reading(IterationStats, _inter_token),
    ),
    Metric(
        name="hookline_step_requests",
        kind=Kind.HISTOGRAM,
        unit="requests",
        help="Requests that a step computed tokens of, which is the batch size.",
        buckets=BucketFamily.ITERATION_TOKENS,
        value=Reading(
            StepReading,
            lambda step: one(
                step.record.prefill_requests + step.record.decode_requests
            ),
        ),
    ),
    Metric(
        name="hookline_scheduled_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens that went through the model, by what they were: of prompts or "
        "computed again (prefill), or one a request (decode, drafts included).",
        labels=(Label("phase", ("prefill", "decode")),),
        value=Reading(StepReading, _scheduled),
    ),
    Metric(
        name="hookline_model_forward_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time in the model's forward pass.",
        value=Reading(
            StepReading, lambda step: one(step.record.forward_ns / NANOSECONDS)
        ),
    ),
    Metric(
        name="hookline_estimated_flops",
        kind=Kind.COUNTER,
        unit="operations",
        help="Floating-point operations of the model, estimated from its shape: matrix "
        "products and attention.",
        value=Reading(
            StepReading, lambda step: one(step.facts.cost.flops(step.record))
        ),
    ),
    Metric(
        name="hookline_estimated_read_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="Bytes read from memory, estimated: the weights once a step, and the keys "
        "and values of the context.",
        value=Reading(
            StepReading, lambda step: one(step.facts.cost.read_bytes(step.record))
        ),
    ),
    Metric(
        name="hookline_estimated_write_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="Bytes written to memory, estimated: the keys and values of the step's "
        "tokens.",
        value=Reading(
            StepReading, lambda step: one(step.facts.cost.write_bytes(step.record))
        ),
    ),
)
