"""Names of SGLang's scheduler: its queues, steps and speculation."""

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.dialects.sglang_labels import Names, scheduler, tokenizer
from hookline_metrics.families.adapter_residency import of_adapters
from hookline_metrics.metric import Feature, Kind, Metric
from hookline_metrics.readings import one

NAMES: Names = {
    "hookline_requests_running": (scheduler("num_running_reqs"),),
    "hookline_requests_waiting": (
        scheduler("num_queue_reqs", only={"reason": "capacity"}),
        scheduler("num_grammar_queue_reqs", only={"reason": "grammar"}),
        scheduler("num_decode_transfer_queue_reqs", only={"reason": "remote_kv"}),
    ),
    "hookline_generation_tokens_per_second": (scheduler("gen_throughput"),),
    "hookline_context_length_tokens": (scheduler("context_len"),),
    "hookline_preemptions": (scheduler("num_retracted_requests"),),
    "hookline_preempted_tokens": (
        scheduler("num_retracted_input_tokens", only={"kind": "prompt"}),
        scheduler("num_retracted_output_tokens", only={"kind": "output"}),
    ),
    "hookline_requests_preempted": (scheduler("num_retracted_reqs"),),
    "hookline_scheduled_tokens": (
        scheduler(
            "realtime_tokens",
            rename={"phase": "mode"},
            values={"phase": {"prefill": "prefill_compute", "decode": "decode"}},
        ),
    ),
    "hookline_spec_decode_num_drafts": (tokenizer("spec_verify_calls"),),
    "hookline_spec_decode_acceptance_ratio": (scheduler("spec_accept_rate"),),
    "hookline_spec_decode_mean_accepted_length": (scheduler("spec_accept_length"),),
    "hookline_structured_output_cache_lookups": (
        scheduler("num_grammar", drop=frozenset({"result"})),
        scheduler("num_grammar_cache_hit", only={"result": "hit"}),
    ),
    "hookline_structured_output_compile_seconds": (
        scheduler("grammar_compilation_time_seconds"),
    ),
    "hookline_structured_output_grammars": (
        scheduler("num_grammar_timeout", only={"outcome": "limit"}),
    ),
    "hookline_estimated_flops": (scheduler("estimated_flops_per_gpu"),),
    "hookline_estimated_read_bytes": (scheduler("estimated_read_bytes_per_gpu"),),
    "hookline_estimated_write_bytes": (scheduler("estimated_write_bytes_per_gpu"),),
    "hookline_request_queue_seconds": (
        scheduler("queue_time_seconds", buckets=BucketFamily.SGLANG_QUEUE),
    ),
    "hookline_request_prefill_seconds": (
        scheduler(
            "per_stage_req_latency_seconds",
            add={"stage": "prefill_forward"},
            buckets=BucketFamily.SGLANG_STAGE,
        ),
    ),
    "hookline_kv_transfer_in_flight": (
        scheduler("num_prefill_inflight_queue_reqs", only={"direction": "save"}),
    ),
    "hookline_kv_transfer_load_seconds": (
        scheduler(
            "kv_transfer_latency_ms",
            buckets=BucketFamily.SGLANG_TRANSFER_MILLISECONDS,
            scale=1000,
        ),
    ),
    "hookline_kv_transfer_failures": (
        scheduler(
            "num_transfer_failed_reqs",
            only={"stage": "load"},
            drop=frozenset({"reason"}),
        ),
    ),
    "hookline_adapters": (scheduler("lora_pool_slots_used", only={"level": "gpu"}),),
    "hookline_adapter_slots": (scheduler("lora_pool_slots_total"),),
    "sglang_lora_utilization": (scheduler("lora_pool_utilization"),),
    "hookline_startup_seconds": (tokenizer("startup_time_seconds"),),
}

ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="sglang_lora_utilization",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Fraction of the slots for adapters that have one, 0 to 1.",
        is_own=False,
        feature=Feature.ADAPTERS,
        value=of_adapters(
            lambda stats: one(stats.slots_used / stats.slots if stats.slots else 0.0)
        ),
    ),
)
