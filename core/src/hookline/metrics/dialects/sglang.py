"""SGLang 0.5's metric names, by Hookline's name of the metric.

SGLang's scheduler labels series by ranks: with one process per model all are 0, and
`dp_rank` is Hookline's `engine`. Its tokenizer's series have no rank.
"""

from collections.abc import Callable, Mapping

from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Alias, Kind, Label, Metric, Point, Value
from hookline.metrics.readings import Reading, one
from hookline.request import FinishReason
from hookline.stats import FinishedRequest, FirstToken, IterationStats

_RANKS = {
    "engine_type": "unified",
    "tp_rank": "0",
    "pp_rank": "0",
    "moe_ep_rank": "0",
}
_TOKENIZER = {"engine_type": "unified"}
_STREAMING = Label("is_streaming", ("true", "false"))


def _scheduler(
    name: str,
    *,
    only: tuple[str, str] | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
    add: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    buckets: BucketFamily | None = None,
    scale: float = 1.0,
) -> Alias:
    """`only` selects one value of one label and drops the label."""
    picked = {} if only is None else {only[0]: {only[1]: ""}}
    return Alias(
        name=f"sglang:{name}",
        rename={"engine": "dp_rank", **(rename or {})},
        values={**(values or {}), **picked},
        drop=frozenset(picked),
        add={**_RANKS, **(add or {})},
        buckets=buckets,
        scale=scale,
    )


def _tokenizer(
    name: str,
    *,
    values: Mapping[str, Mapping[str, str]] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: frozenset[str] = frozenset(),
    add: Mapping[str, str] | None = None,
    buckets: BucketFamily | None = None,
) -> Alias:
    return Alias(
        name=f"sglang:{name}",
        rename=rename or {},
        values=values or {},
        drop=drop | {"engine"},
        add={**_TOKENIZER, **(add or {})},
        buckets=buckets,
    )


_CACHE_CONFIG = Alias(
    name="sglang:cache_config_info",
    rename={
        "engine": "dp_rank",
        "block_size": "page_size",
        "num_kv_blocks": "num_pages",
    },
    drop=frozenset(
        {
            "architecture",
            "dtype",
            "cache_dtype",
            "max_model_len",
            "max_num_seqs",
            "max_num_batched_tokens",
            "enable_prefix_caching",
            "executor",
            "isa",
            "version",
            "config_hash",
        }
    ),
    add=_RANKS,
)


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "hookline_engine_info": (_CACHE_CONFIG,),
    "hookline_requests_running": (_scheduler("num_running_reqs"),),
    "hookline_requests_waiting": (
        _scheduler("num_queue_reqs", only=("reason", "capacity")),
        _scheduler("num_grammar_queue_reqs", only=("reason", "grammar")),
    ),
    "hookline_generation_tokens_per_second": (_scheduler("gen_throughput"),),
    "hookline_prefix_cache_hit_ratio": (_scheduler("cache_hit_rate"),),
    "hookline_kv_cache_usage_ratio": (
        _scheduler("token_usage"),
        _scheduler("full_token_usage"),
    ),
    "hookline_kv_tokens": (
        _scheduler("num_used_tokens", only=("state", "used")),
        _scheduler("kv_used_tokens", only=("state", "used")),
        _scheduler("kv_evictable_tokens", only=("state", "cached")),
        _scheduler("kv_available_tokens", only=("state", "free")),
    ),
    "hookline_kv_capacity_tokens": (_scheduler("max_total_num_tokens"),),
    "hookline_kv_block_size_tokens": (_scheduler("page_size"),),
    "hookline_kv_pool_blocks": (_scheduler("num_pages"),),
    "hookline_context_length_tokens": (_scheduler("context_len"),),
    "hookline_preemptions": (_scheduler("num_retracted_requests"),),
    "hookline_scheduled_tokens": (
        _scheduler(
            "realtime_tokens",
            rename={"phase": "mode"},
            values={"phase": {"prefill": "prefill_compute", "decode": "decode"}},
        ),
    ),
    "hookline_spec_decode_num_drafts": (_tokenizer("spec_verify_calls"),),
    "hookline_spec_decode_acceptance_ratio": (_scheduler("spec_accept_rate"),),
    "hookline_spec_decode_mean_accepted_length": (_scheduler("spec_accept_length"),),
    "hookline_estimated_flops": (_scheduler("estimated_flops_per_gpu"),),
    "hookline_estimated_read_bytes": (_scheduler("estimated_read_bytes_per_gpu"),),
    "hookline_estimated_write_bytes": (_scheduler("estimated_write_bytes_per_gpu"),),
    "hookline_request_queue_seconds": (
        _scheduler("queue_time_seconds", buckets=BucketFamily.SGLANG_QUEUE),
    ),
    "hookline_request_prefill_seconds": (
        _scheduler(
            "per_stage_req_latency_seconds",
            add={"stage": "prefill_forward"},
            buckets=BucketFamily.SGLANG_STAGE,
        ),
    ),
    "hookline_startup_seconds": (_tokenizer("startup_time_seconds"),),
    "hookline_prompt_tokens": (
        _tokenizer(
            "cached_tokens",
            rename={"source": "cache_source"},
            values={"source": {"local_cache": "device", "external": "storage"}},
        ),
    ),
    "hookline_inter_token_seconds": (
        _tokenizer(
            "inter_token_latency_seconds", buckets=BucketFamily.SGLANG_INTER_TOKEN
        ),
    ),
    "hookline_request_prompt_tokens": (
        _tokenizer("prompt_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS),
    ),
    "hookline_request_prefill_computed_tokens": (
        _tokenizer(
            "uncached_prompt_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS
        ),
    ),
    "hookline_request_generation_tokens": (
        _tokenizer("generation_tokens_histogram", buckets=BucketFamily.SGLANG_TOKENS),
    ),
    "hookline_request_time_per_output_token_seconds": (
        _tokenizer(
            "time_per_output_token_seconds", buckets=BucketFamily.SGLANG_INTER_TOKEN
        ),
    ),
    "hookline_requests_finished": (
        _tokenizer(
            "num_aborted_requests",
            values={"reason": {"abort": "", "timeout": ""}},
            drop=frozenset({"reason"}),
        ),
    ),
    "hookline_http_requests": (
        Alias(
            name="sglang:http_requests",
            rename={"route": "endpoint"},
            drop=frozenset({"status"}),
        ),
        Alias(
            name="sglang:http_responses",
            rename={"route": "endpoint", "status": "status_code"},
        ),
    ),
    "hookline_http_requests_in_flight": (
        Alias(name="sglang:http_requests_active", rename={"route": "endpoint"}),
    ),
    "sglang_prompt_tokens": (_tokenizer("prompt_tokens"),),
    "sglang_cached_tokens": (
        _tokenizer("cached_tokens", add={"cache_source": "total"}),
    ),
    "sglang_prefill_cache_tokens": (
        _scheduler("realtime_tokens", add={"mode": "prefill_cache"}),
    ),
    "sglang_generation_tokens": (_tokenizer("generation_tokens"),),
    "sglang_requests": (_tokenizer("num_requests"),),
    "sglang_time_to_first_token_seconds": (
        _tokenizer("time_to_first_token_seconds", buckets=BucketFamily.SGLANG_TTFT),
    ),
    "sglang_request_time_per_output_token_seconds": (
        _tokenizer(
            "request_time_per_output_token_seconds",
            buckets=BucketFamily.SGLANG_INTER_TOKEN,
        ),
    ),
    "sglang_e2e_request_latency_seconds": (
        _tokenizer("e2e_request_latency_seconds", buckets=BucketFamily.SGLANG_E2E),
    ),
}


def _streamed(request: FinishedRequest | FirstToken) -> str:
    return "true" if request.is_streamed else "false"


def _of_request(
    number: Callable[[FinishedRequest], float | None],
) -> Reading[FinishedRequest]:
    """Reads a number from each finished request, labelled by whether it streamed."""

    def points(request: FinishedRequest) -> tuple[Point, ...]:
        value = number(request)
        if value is None or request.reason is FinishReason.REJECTED:
            return ()
        return (((_streamed(request),), value, 1),)

    return Reading(FinishedRequest, points)


def _tpot(request: FinishedRequest) -> float | None:
    is_whole = request.reason in (FinishReason.STOP, FinishReason.LENGTH)
    return request.tpot_seconds if is_whole else None


def _cached(iteration: IterationStats) -> float:
    return iteration.prompt_tokens_local + iteration.prompt_tokens_external


def _counter(
    name: str, unit: str, text: str, value: Value, labels: tuple[Label, ...] = ()
) -> Metric:
    return Metric(
        name=f"sglang_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        labels=labels,
        is_own=False,
        value=value,
    )


def _seconds(name: str, text: str, family: BucketFamily, value: Value) -> Metric:
    return Metric(
        name=f"sglang_{name}_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help=text,
        labels=(_STREAMING,),
        buckets=family,
        is_own=False,
        value=value,
    )


ONLY_THERE: tuple[Metric, ...] = (
    _counter(
        "prompt_tokens",
        "tokens",
        "Prompt tokens of finished requests.",
        _of_request(lambda request: request.prompt_tokens),
        (_STREAMING,),
    ),
    _counter(
        "generation_tokens",
        "tokens",
        "Generated tokens of finished requests.",
        _of_request(lambda request: request.output_tokens),
        (_STREAMING,),
    ),
    _counter(
        "requests",
        "requests",
        "Number of finished requests.",
        _of_request(lambda _: 1),
        (_STREAMING,),
    ),
    _counter(
        "cached_tokens",
        "tokens",
        "Prompt tokens found in a cache.",
        Reading(IterationStats, lambda iteration: one(_cached(iteration))),
    ),
    _counter(
        "prefill_cache_tokens",
        "tokens",
        "Prompt tokens found in a cache and therefore not computed.",
        Reading(IterationStats, lambda iteration: one(_cached(iteration))),
    ),
    _seconds(
        "time_to_first_token",
        "Time to first token: first token - arrival, on the front end's clock.",
        BucketFamily.SGLANG_TTFT,
        Reading(FirstToken, lambda first: (((_streamed(first),), first.seconds, 1),)),
    ),
    _seconds(
        "request_time_per_output_token",
        "Time per output token: decode time / (generated tokens - 1) of requests that "
        "completed; not observed for fewer than two tokens.",
        BucketFamily.SGLANG_INTER_TOKEN,
        _of_request(_tpot),
    ),
    _seconds(
        "e2e_request_latency",
        "End-to-end latency: end - arrival, on the front end's clock.",
        BucketFamily.SGLANG_E2E,
        _of_request(lambda request: request.e2e_seconds),
    ),
)

NOT_APPLICABLE: Mapping[str, str] = {
    "sglang:swa_token_usage": "sliding-window layers share the one block pool",
    "sglang:mamba_usage": "state-space models are not supported",
    "sglang:lora_pool_slots_used": "LoRA adapters are not supported",
    "sglang:num_grammar_total": "structured output is not supported",
    "sglang:kv_transfer_latency_ms": "durations of KV transfers are summed "
    "(hookline_kv_transfer_seconds), not a histogram",
    "sglang:hicache_host_used_tokens": "tiers are reported in blocks and bytes: see "
    "hookline_kv_tier_used_blocks",
    "sglang:is_cuda_graph": "whether a step replayed a CUDA graph is not recorded",
    "sglang:new_token_ratio": "admission does not estimate output lengths",
    "sglang:utilization": "SGLang never sets it; see hookline_saturation_ratio",
}
