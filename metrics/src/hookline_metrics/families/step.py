"""Metrics of steps: what each one cost and what it brought."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StepReading, by_label, one
from hookline_metrics.step_cost import flops, read_bytes, write_bytes

PROMPT_SOURCE = Label("source", ("computed", "local_cache", "external", "transferred"))


def _phases(step: StepReading) -> Iterable[Point]:
    record = step.record
    return by_label(
        {
            "schedule": record.schedule_ns / NANOSECONDS,
            "execute": record.execute_ns / NANOSECONDS,
            "update": (record.ended_at - record.executed_at) / NANOSECONDS,
        }
    )


def _scheduled(step: StepReading) -> Iterable[Point]:
    work = step.record.work
    return by_label({"prefill": work.prefill_tokens, "decode": work.decode_tokens})


def _prompt_tokens(iteration: IterationStats) -> Iterable[Point]:
    return by_label(
        {
            "computed": iteration.prompt_tokens_computed,
            "local_cache": iteration.prompt_tokens_local,
            "external": iteration.prompt_tokens_external,
            "transferred": iteration.prompt_tokens_transferred,
        }
    )


def _ttft(first: FirstToken) -> Iterable[Point]:
    return () if first.decodes_elsewhere else one(first.seconds)


def _inter_token(iteration: IterationStats) -> Iterable[Point]:
    return [((), seconds, tokens) for seconds, tokens in iteration.inter_token_seconds]


STEP_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_step_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Duration of a step's phases: schedule, execute and update. Together "
        "they make up the step; with asynchronous scheduling, schedule and "
        "update overlap the execution of another step.",
        labels=(Label("phase", ("schedule", "execute", "update")),),
        buckets=BucketFamily.STEP_DURATION,
        value=Reading(StepReading, _phases),
    ),
    Metric(
        name="hookline_step_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help="Tokens processed by the model per step, prefill and decode together.",
        buckets=BucketFamily.ITERATION_TOKENS,
        value=Reading(StepReading, lambda step: one(step.record.work.tokens)),
    ),
    Metric(
        name="hookline_prompt_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Prompt tokens by the source of their KV: computed here, local prefix "
        "cache, external (found by a KV connector), or transferred (computed for the "
        "request by another instance); counted at its first token. The sum over "
        "sources is all prompt tokens. Each of n completions is a request: see "
        "hookline_request_group_prompt_tokens.",
        labels=(PROMPT_SOURCE,),
        value=Reading(IterationStats, _prompt_tokens),
    ),
    Metric(
        name="hookline_generation_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Number of generated tokens.",
        value=Reading(
            IterationStats, lambda iteration: one(iteration.generation_tokens)
        ),
    ),
    Metric(
        name="hookline_time_to_first_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time to first token: first token - arrival, on the front end's clock; "
        "queueing and preemption included.",
        buckets=BucketFamily.TIME_TO_FIRST_TOKEN,
        value=Reading(FirstToken, _ttft),
    ),
    Metric(
        name="hookline_inter_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Inter-token latency: time between two consecutive steps that generated "
        "tokens for a request, divided by the tokens of the later step and "
        "observed once for each of them. Preemption included.",
        buckets=BucketFamily.INTER_TOKEN_LATENCY,
        value=Reading(IterationStats, _inter_token),
    ),
    Metric(
        name="hookline_step_requests",
        kind=Kind.HISTOGRAM,
        unit="requests",
        help="Batch size: requests with scheduled tokens in a step.",
        buckets=BucketFamily.ITERATION_TOKENS,
        value=Reading(StepReading, lambda step: one(step.record.work.requests)),
    ),
    Metric(
        name="hookline_scheduled_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens processed by the model by phase: prefill (prompt and recomputed "
        "tokens) or decode (one per request, plus draft tokens).",
        labels=(Label("phase", ("prefill", "decode")),),
        value=Reading(StepReading, _scheduled),
    ),
    Metric(
        name="hookline_model_forward_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time spent in the model's forward pass, summed over pipeline stages.",
        value=Reading(
            StepReading,
            lambda step: one(step.record.execution.forward_ns / NANOSECONDS),
        ),
    ),
    Metric(
        name="hookline_kernels_compiling",
        kind=Kind.GAUGE,
        unit="1",
        help="1 if torch computed the latest step because the engine's kernels are "
        "being compiled in the background, otherwise 0.",
        value=Reading(
            StepReading,
            lambda step: one(float(step.record.execution.kernels_compiling)),
        ),
    ),
    Metric(
        name="hookline_estimated_flops",
        kind=Kind.COUNTER,
        unit="operations",
        help="Estimated floating-point operations of the model's matrix products and "
        "attention.",
        value=Reading(
            StepReading, lambda step: one(flops(step.facts.model.cost, step.record))
        ),
        needs=(Tells.STEPS, Tells.COST),
    ),
    Metric(
        name="hookline_estimated_read_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="Estimated bytes read from memory: the weights once per step, plus the "
        "keys and values of the context.",
        value=Reading(
            StepReading,
            lambda step: one(read_bytes(step.facts.model.cost, step.record)),
        ),
        needs=(Tells.STEPS, Tells.COST),
    ),
    Metric(
        name="hookline_estimated_write_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="Estimated bytes written to memory: the keys and values of the step's "
        "tokens.",
        value=Reading(
            StepReading,
            lambda step: one(write_bytes(step.facts.model.cost, step.record)),
        ),
        needs=(Tells.STEPS, Tells.COST),
    ),
)
