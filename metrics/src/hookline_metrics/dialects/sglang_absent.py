"""Families of SGLang 0.5.23 that have no number here, and why."""

from collections.abc import Mapping

_BY_REASON: Mapping[str, tuple[str, ...]] = {
    "only requests, cache hits, outcomes and times of grammars are counted": (
        *("grammar_ebnf_size", "grammar_schema_count"),
        "grammar_tree_traversal_time_avg",
        *("grammar_tree_traversal_time_max", "num_grammar_aborted_total"),
    ),
    "there is no multimodal input": (
        *("encoder_cache_entries", "encoder_cache_evictions_total"),
        *("encoder_cache_hit_files_total", "encoder_cache_hit_tokens_total"),
        *("encoder_cache_size_mb", "encoder_cache_total_files_total"),
        *("encoder_cache_total_tokens_total", "encoder_dp_pending_requests"),
        *("encoder_mm_items_per_batch", "encoder_mm_items_per_request"),
        *("encoder_model_forward_seconds", "encoder_preprocess_seconds"),
        *("encoder_queue_wait_seconds", "encoder_request_e2e_latency_seconds"),
        *("encoder_requests_received_total", "encoder_requests_total"),
        "encoder_transfer_seconds",
    ),
    "state-space models are not supported": (
        *("hicache_host_mamba_total_states", "hicache_host_mamba_used_states"),
        *("mamba_available_tokens", "mamba_evictable_tokens", "mamba_usage"),
        "mamba_used_tokens",
    ),
    "sliding-window layers share the one block pool": (
        *("max_total_num_tokens_swa", "prealloc_swa_token_usage"),
        *("swa_available_tokens", "swa_evictable_tokens", "swa_token_usage"),
        "swa_used_tokens",
    ),
    "engines that share experts compute in lockstep but divide no attention: see "
    "hookline_dummy_steps, hookline_expert_wait_seconds and hookline_expert_tokens": (
        *("dp_attention_pairs_total", "dp_attention_steps_total"),
        *("dp_attention_sync_wait_seconds", "dp_attention_token_imbalance_ratio"),
        "dp_attention_tokens_total",
        "dp_cooperation_forward_execution_seconds_total",
        "dp_cooperation_realtime_tokens_total",
    ),
    "experts stay on their ranks": ("eplb_balancedness", "eplb_gpu_physical_count"),
    "no engine delays its prefills to match those of others": (
        *("prefill_delayer_outcomes_total", "prefill_delayer_wait_forward_passes"),
        "prefill_delayer_wait_seconds",
    ),
    "KV is loaded into blocks that are allocated at admission, without a handshake, "
    "a reservation or a queue of its own": (
        *("decode_deferred_kv_release_seconds", "decode_deferred_kv_release_total"),
        *("kv_transfer_alloc_ms", "kv_transfer_bootstrap_ms"),
        *("num_bootstrap_failed_reqs_total", "num_decode_deferred_kv_release_reqs"),
        *("num_decode_host_receive_queue_reqs", "num_decode_host_receive_reqs_total"),
        *("num_decode_prealloc_queue_reqs", "num_prefill_bootstrap_queue_reqs"),
        *("num_prefill_retries_total", "pending_prealloc_token_usage"),
        "prealloc_full_token_usage",
    ),
    "bytes are counted over all KV transfers, not for each one: see "
    "hookline_kv_transfer_bytes": (
        *("kv_transfer_speed_gb_s", "kv_transfer_total_mb"),
    ),
    "blocks move when they are needed or evicted, without a prefetch": (
        *("backup_bandwidth", "backup_pgs", "prefetch_bandwidth", "prefetch_pgs"),
        "hicache_prefetch_aux_alloc_failed_tokens_total",
        "storage_prefetch_deferred_tokens_total",
        "storage_prefetch_unfulfilled_tokens_total",
    ),
    "whether a step replayed a CUDA graph is not recorded": (
        *("cuda_graph_passes_total", "is_cuda_graph"),
    ),
    "memory is reported only for the KV cache, and the startup's time by phase: see "
    "hookline_startup_seconds": (
        *("graph_memory_usage_gb", "startup_available_gpu_memory_gb"),
        *("startup_cuda_graph_time_seconds", "startup_latency_breakdown_seconds_max"),
        "weight_memory_usage_gb",
    ),
    "the time of steps is reported by phase: see hookline_step_seconds": (
        *("forward_execution_seconds_total", "func_latency_seconds", "fwd_occupancy"),
        *("scheduler_idle_seconds_total", "scheduler_stage_seconds_total"),
    ),
    "CPU time is reported for the threads that compute steps: see "
    "hookline_worker_thread_seconds": (
        *("process_cpu_seconds_total", "scheduler_process_cpu_seconds_total"),
    ),
    "the number of draft tokens differs between requests: see "
    "hookline_spec_decode_num_speculative_tokens": (
        *("spec_block_accept_length", "spec_cap_length", "spec_num_draft_tokens"),
        "spec_num_steps",
    ),
    "there are no sessions that keep their blocks": (
        *("failed_session_recoveries_total", "num_streaming_sessions"),
        "streaming_session_held_tokens",
    ),
    "requests have no routing keys": (
        *("num_unique_running_routing_keys", "routing_key_all_req_count"),
        *("routing_key_running_req_count", "routing_keys_active"),
    ),
    "weights are not updated while the server runs": (
        *("num_paused_reqs", "weight_load_duration_seconds"),
    ),
    "there is no /v1/loads": ("get_loads_duration_seconds",),
    "the lengths of the sequences of a batch are not summed": ("decode_sum_seq_lens",),
    "admission does not estimate output lengths": ("new_token_ratio",),
    "SGLang never sets it; see hookline_saturation_ratio": (
        *("max_running_requests_under_SLO", "utilization"),
    ),
}

NOT_APPLICABLE: Mapping[str, str] = {
    f"sglang:{name}": reason for reason, names in _BY_REASON.items() for name in names
}
