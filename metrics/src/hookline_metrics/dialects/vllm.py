"""vLLM 0.33's metric names, by Hookline's name of the metric."""

from collections.abc import Mapping

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Alias, Kind

_UNOBSERVED = {
    "route": (
        *("/metrics", "/health", "/load", "/ping", "/version", "/server_info"),
        *("/live", "/ready"),
    )
}
"""Parts of the routes that vLLM's HTTP metrics leave out, and those of our probes."""


def _http(
    name: str, *, buckets: BucketFamily | None = None, kind: Kind | None = None
) -> tuple[Alias, ...]:
    return (
        Alias(
            name=f"http_{name}",
            rename={"route": "handler"},
            without=_UNOBSERVED,
            buckets=buckets,
            kind=kind,
        ),
    )


def _named(name: str, buckets: BucketFamily | None = None) -> tuple[Alias, ...]:
    return (Alias(name=f"vllm:{name}", buckets=buckets),)


def _latency(name: str) -> tuple[Alias, ...]:
    return _named(name, BucketFamily.REQUEST_LATENCY)


def _milliseconds(name: str) -> tuple[Alias, ...]:
    """Names of vLLM's version 0, shown because they exist only where asked for."""
    return (
        Alias(name=f"vllm:{name}", scale=1000, buckets=BucketFamily.MODEL_MILLISECONDS),
    )


_SLEEP_OPERATIONS = {"operation": {"sleep": "sleep", "wake_up": "wake"}}

NAMES: Mapping[str, tuple[Alias, ...]] = {
    "hookline_engine_sleep_state": (
        Alias(
            name="vllm:engine_sleep_state",
            rename={"state": "sleep_state"},
            values={
                "state": {
                    "awake": "awake",
                    "kv_cache_released": "weights_offloaded",
                    "weights_released": "discard_all",
                }
            },
        ),
    ),
    "hookline_sleep_operation_seconds": (
        Alias(
            name="vllm:sleep_mode_operation_duration_seconds",
            values=_SLEEP_OPERATIONS,
        ),
    ),
    "hookline_sleep_operations_in_flight": (
        Alias(name="vllm:sleep_mode_operations_in_flight", values=_SLEEP_OPERATIONS),
    ),
    "hookline_requests_running": _named("num_requests_running"),
    "hookline_requests_waiting": (
        Alias(name="vllm:num_requests_waiting", drop=frozenset({"reason"})),
        Alias(
            name="vllm:num_requests_waiting_by_reason",
            values={
                "reason": {
                    "capacity": "capacity",
                    "grammar": "deferred",
                    "remote_kv": "deferred",
                    "adapter": "deferred",
                }
            },
        ),
    ),
    "hookline_kv_transfer_requests": _named("num_requests_kv_fetch_by_stage"),
    "hookline_kv_cache_usage_ratio": _named("kv_cache_usage_perc"),
    "hookline_preemptions": _named("num_preemptions"),
    "hookline_prefix_cache_queried_tokens": _named("prefix_cache_queries"),
    "hookline_prefix_cache_hit_tokens": _named("prefix_cache_hits"),
    "hookline_cached_tokens": (
        Alias(
            name="vllm:prompt_tokens_cached_by_source",
            values={
                "source": {
                    **{place: place for place in ("device", "host", "disk", "p2p")},
                    "unspecified": "external_unspecified",
                }
            },
        ),
    ),
    "hookline_external_cache_queried_tokens": _named("external_prefix_cache_queries"),
    "hookline_external_cache_hit_tokens": _named("external_prefix_cache_hits"),
    "hookline_step_tokens": _named("iteration_tokens_total"),
    "hookline_prompt_tokens": (
        Alias(name="vllm:prompt_tokens", drop=frozenset({"source"})),
        Alias(
            name="vllm:prompt_tokens_by_source",
            values={
                "source": {
                    "computed": "local_compute",
                    "local_cache": "local_cache_hit",
                    "external": "external_kv_transfer",
                    "transferred": "external_kv_transfer",
                }
            },
        ),
        Alias(
            name="vllm:prompt_tokens_cached",
            values={"source": {"local_cache": "", "external": ""}},
            drop=frozenset({"source"}),
        ),
    ),
    "hookline_generation_tokens": _named("generation_tokens"),
    "hookline_time_to_first_token_seconds": _named("time_to_first_token_seconds"),
    "hookline_inter_token_seconds": _named("inter_token_latency_seconds"),
    "hookline_requests_finished": (
        Alias(
            name="vllm:request_success",
            rename={"reason": "finished_reason"},
            values={
                "reason": {
                    "stop": "stop",
                    "length": "length",
                    "abort": "abort",
                    "error": "error",
                    "timeout": "abort",
                }
            },
        ),
    ),
    "hookline_requests_corrupted": (
        Alias(
            name="vllm:corrupted_requests",
            values={
                "origin": {
                    "model": "",
                    "logits_processor": "",
                    "engine": "",
                }
            },
            drop=frozenset({"origin"}),
        ),
    ),
    "hookline_requests_rejected": (
        Alias(
            name="vllm:admission_rejections",
            rename={"code": "reason"},
            values={
                "code": {
                    "overloaded": "max_num_queued_reqs",
                    "overloaded_tokens": "max_num_queued_tokens",
                }
            },
            drop=frozenset({"engine"}),
        ),
    ),
    "hookline_request_prompt_tokens": _named("request_prompt_tokens"),
    "hookline_request_generation_tokens": _named("request_generation_tokens"),
    "hookline_request_limit_tokens": _named("request_params_max_tokens"),
    "hookline_request_prefill_computed_tokens": _named(
        "request_prefill_kv_computed_tokens"
    ),
    "hookline_request_group_max_generation_tokens": _named(
        "request_max_num_generation_tokens"
    ),
    "hookline_request_completions": _named("request_params_n"),
    "hookline_request_preemptions": _named("request_num_preemptions"),
    "hookline_request_e2e_seconds": _latency("e2e_request_latency_seconds"),
    "hookline_request_queue_seconds": _latency("request_queue_time_seconds"),
    "hookline_request_prefill_seconds": _latency("request_prefill_time_seconds"),
    "hookline_request_decode_seconds": _latency("request_decode_time_seconds"),
    "hookline_request_inference_seconds": _latency("request_inference_time_seconds"),
    "hookline_request_time_per_output_token_seconds": _named(
        "request_time_per_output_token_seconds"
    ),
    "hookline_kv_block_lifetime_seconds": _named("kv_block_lifetime_seconds"),
    "hookline_kv_block_idle_before_evict_seconds": _named(
        "kv_block_idle_before_evict_seconds"
    ),
    "hookline_kv_block_reuse_gap_seconds": _named("kv_block_reuse_gap_seconds"),
    "hookline_estimated_flops": _named("estimated_flops_per_gpu"),
    "hookline_estimated_read_bytes": _named("estimated_read_bytes_per_gpu"),
    "hookline_estimated_write_bytes": _named("estimated_write_bytes_per_gpu"),
    "hookline_spec_decode_num_drafts": _named("spec_decode_num_drafts"),
    "hookline_spec_decode_num_draft_tokens": _named("spec_decode_num_draft_tokens"),
    "hookline_spec_decode_num_accepted_tokens": _named(
        "spec_decode_num_accepted_tokens"
    ),
    "hookline_spec_decode_num_accepted_tokens_per_pos": _named(
        "spec_decode_num_accepted_tokens_per_pos"
    ),
    "hookline_adapter_loaded": (
        Alias(name="vllm:lora_adapter_loaded", rename={"adapter": "adapter_name"}),
    ),
    "hookline_adapters": (
        Alias(
            name="vllm:num_gpu_loaded_lora_adapters",
            values={"level": {"gpu": ""}},
            drop=frozenset({"level"}),
        ),
        Alias(
            name="vllm:num_cpu_loaded_lora_adapters",
            values={"level": {"gpu": "", "cpu": ""}},
            drop=frozenset({"level"}),
        ),
    ),
    "hookline_adapter_slots": _named("max_gpu_lora_adapters"),
    "hookline_adapter_load_seconds": _named("lora_adapter_load_seconds"),
    "hookline_request_model_forward_seconds": _milliseconds(
        "model_forward_time_milliseconds"
    ),
    "hookline_request_model_execute_seconds": _milliseconds(
        "model_execute_time_milliseconds"
    ),
    "hookline_http_requests": (
        Alias(
            name="http_requests",
            rename={"route": "handler"},
            values={
                "status": {
                    **{status: status for status in ("2xx", "3xx", "4xx", "5xx")},
                    # Nobody reads vLLM's answer to a client that left; it is a 200.
                    "client_disconnect": "2xx",
                }
            },
            without=_UNOBSERVED,
        ),
    ),
    "hookline_http_request_duration_seconds": (
        *_http("request_duration_seconds", buckets=BucketFamily.HTTP_LATENCY),
        Alias(
            name="http_request_duration_highr_seconds",
            without=_UNOBSERVED,
            drop=frozenset({"route", "method"}),
            buckets=BucketFamily.HTTP_LATENCY_HIGH_RESOLUTION,
        ),
    ),
    "hookline_http_request_size_bytes": _http("request_size_bytes", kind=Kind.SUMMARY),
    "hookline_http_response_size_bytes": _http(
        "response_size_bytes", kind=Kind.SUMMARY
    ),
}

NOT_APPLICABLE: Mapping[str, str] = {
    "vllm:mm_cache_queries_total": "there is no multimodal input",
    "vllm:mm_cache_hits_total": "there is no multimodal input",
    "vllm:watermark_requests_total": "outputs are not watermarked",
    "vllm:tool_call_parser_invocations_total": "calls of parsers are not counted",
    "vllm:websocket_connections_active": "there is no WebSocket API",
    "vllm:websocket_connections_total": "there is no WebSocket API",
    "vllm:websocket_connection_duration_seconds": "there is no WebSocket API",
}
