"""Metrics of steps: what each one cost and what it brought."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.events import StepRecord
from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Alias, Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, by_label, each, one
from hookline.stats import IterationStats


def _phases(record: StepRecord) -> Iterable[Point]:
    return by_label(
        {
            "schedule": (record.scheduled_at - record.started_at) / NANOSECONDS,
            "execute": (record.executed_at - record.scheduled_at) / NANOSECONDS,
            "update": (record.ended_at - record.executed_at) / NANOSECONDS,
        }
    )


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
        "taking in its tokens. The three add up to the step.",
        labels=(Label("phase", ("schedule", "execute", "update")),),
        buckets=BucketFamily.STEP_DURATION,
        value=Reading(StepRecord, _phases),
    ),
    Metric(
        name="hookline_step_tokens",
        kind=Kind.HISTOGRAM,
        unit="tokens",
        help="Tokens that went through the model in a step, of prompts and of decodes.",
        buckets=BucketFamily.ITERATION_TOKENS,
        value=Reading(
            StepRecord, lambda record: one(record.prefill_tokens + record.decode_tokens)
        ),
        names={"vllm": (Alias(name="vllm:iteration_tokens_total"),)},
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
        names={
            "vllm": (
                Alias(name="vllm:prompt_tokens", drop=frozenset({"source"})),
                Alias(
                    name="vllm:prompt_tokens_by_source",
                    values={
                        "source": {
                            "computed": "local_compute",
                            "local_cache": "local_cache_hit",
                            "external": "external_kv_transfer",
                        }
                    },
                ),
                Alias(
                    name="vllm:prompt_tokens_cached",
                    values={"source": {"local_cache": "", "external": ""}},
                    drop=frozenset({"source"}),
                ),
            )
        },
    ),
    Metric(
        name="hookline_generation_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens generated.",
        value=Reading(
            IterationStats, lambda iteration: one(iteration.generation_tokens)
        ),
        names={"vllm": (Alias(name="vllm:generation_tokens"),)},
    ),
    Metric(
        name="hookline_time_to_first_token_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="First token - arrival, both on the front end's clock; queueing and "
        "preemption included.",
        buckets=BucketFamily.TIME_TO_FIRST_TOKEN,
        value=Reading(IterationStats, lambda iteration: each(iteration.ttft_seconds)),
        names={"vllm": (Alias(name="vllm:time_to_first_token_seconds"),)},
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
        names={"vllm": (Alias(name="vllm:inter_token_latency_seconds"),)},
    ),
)
