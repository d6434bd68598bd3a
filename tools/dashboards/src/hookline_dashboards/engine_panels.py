"""Rows about the engine: scheduler, cache, speculation, KV transfer, model."""

from hookline_dashboards.panel import Alarm, Row, Style
from hookline_dashboards.standard_panels import StandardPanels

_SPECULATION_TITLES = {
    "num_drafts": "Drafts per second",
    "num_draft_tokens": "Draft tokens",
    "num_accepted_tokens": "Accepted draft tokens",
    "num_accepted_tokens_per_pos": "Accepted draft tokens by position",
    "draft_seconds": "Time in the proposer",
    "verify_seconds": "Time of verifying steps",
    "acceptance_ratio": "Acceptance rate (60 s)",
    "mean_accepted_length": "Mean acceptance length (60 s)",
    "estimated_speedup_ratio": "Estimated speedup (60 s)",
    "num_speculative_tokens": "Maximum draft tokens per request",
}

_STRUCTURED_TITLES = {
    "grammars": "Grammars compiled or refused",
    "compile_seconds": "Time of compiling grammars",
    "cache_lookups": "Requests with a grammar",
    "cache_bytes": "Memory of compiled grammars",
    "mask_fill_seconds": "Time of filling masks",
    "mask_apply_seconds": "Time of applying masks",
    "forced_tokens": "Tokens that grammars force",
}

_TRANSFER_TITLES = {
    "requests": "Requests that wait for KV by stage",
    "lookup_seconds": "KV connector look-ups",
    "in_flight": "KV transfers in flight",
    "oldest_age_seconds": "Age of the oldest KV transfer",
    "closing": "Cancelled KV transfers not yet released",
    "held_blocks": "Blocks held by KV transfers",
    "breaker_open": "KV connector breaker open",
    "ended": "Completed KV transfers",
    "seconds": "Time of completed KV transfers",
    "load_seconds": "Duration of KV loads",
    "bytes": "KV transfer throughput",
    "failures": "KV transfer failures",
    "late_reports": "Late KV transfer reports",
    "recomputed_tokens": "Tokens recomputed after failed loads",
    "expired_blocks": "Blocks of expired saves",
    "reclaimed_blocks": "Blocks taken back from saves",
    "released_blocks": "Blocks that nobody will load",
}

_TIER_TITLES = {
    "info": "Tier sizes",
    "used_blocks": "Tier blocks used",
    "limit_blocks": "Tier capacity in blocks",
    "used_tokens": "Tier tokens used",
    "limit_tokens": "Tier capacity in tokens",
    "used_bytes": "Tier bytes used",
    "limit_bytes": "Tier capacity in bytes",
    "lookup_tokens": "Tier lookups by result",
    "moved_bytes": "Tier throughput",
    "moved_seconds": "Tier time by direction",
    "evicted_blocks": "Tier evictions",
    "dropped_blocks": "Tier blocks dropped",
    "dropped_stores": "Tier stores without room",
    "failed_moves": "Failed tier stores and loads",
    "moves_in_flight": "Tier stores and loads in flight",
    "moving_ratio": "Tier capacity in stores and loads in flight",
    "lookup_seconds": "Tier look-ups (p99)",
    "allocation_blocks": "Blocks per tier store (p99)",
    "move_size_bytes": "Bytes per tier store and load (p99)",
    "move_duration_seconds": "Time of tier stores and loads (p99)",
}


def scheduler(make: StandardPanels) -> Row:
    return Row(
        title="Scheduler",
        is_open=True,
        panels=(
            make.means("Mean step time by phase", "hookline_step_seconds"),
            make.tails("Step time by phase (p99)", "hookline_step_seconds"),
            make.distribution("Batch size", "hookline_step_requests"),
            make.heatmap("Tokens per step", "hookline_step_tokens"),
            make.rates("Steps per second", "hookline_step_tokens"),
            make.rates(
                "Scheduled tokens", "hookline_scheduled_tokens", style=Style.STACKED
            ),
            make.rates(
                "Computed tokens",
                "hookline_computed_tokens",
                "hookline_recomputed_tokens",
                "hookline_discarded_tokens",
            ),
            make.share(
                "Recomputed tokens (share)",
                "hookline_recomputed_tokens",
                "hookline_computed_tokens",
            ),
            make.rates("Preemptions", "hookline_preemptions"),
            make.totals("Preempted requests that wait", "hookline_requests_preempted"),
            make.rates("Tokens of preempted requests", "hookline_preempted_tokens"),
            make.distribution(
                "Preemptions per request", "hookline_request_preemptions"
            ),
            make.totals("Waiting tokens", "hookline_waiting_tokens"),
            make.each(
                "Age of the oldest requests",
                "hookline_oldest_waiting_age_seconds",
                "hookline_oldest_running_age_seconds",
            ),
            make.each(
                "Time since last step and report",
                "hookline_last_step_age_seconds",
                "hookline_snapshot_age_seconds",
            ),
            make.each("Time without an answer", "hookline_engine_stall_seconds"),
            make.rates("Engine stalls", "hookline_engine_stalls"),
            make.rates("Engine restarts", "hookline_engine_restarts"),
            make.each("Saturation by component", "hookline_saturation_part_ratio"),
            make.each("Time at each limit", "hookline_bound_ratio"),
            make.each(
                "Requests per second at capacity",
                "hookline_capacity_requests_per_second",
            ),
            make.each(
                "Concurrent requests that it can serve",
                "hookline_capacity_concurrent_requests",
            ),
            make.each(
                "Latency to expect at the present load",
                "hookline_predicted_time_to_first_token_seconds",
                "hookline_predicted_inter_token_seconds",
            ),
            make.each("Error of these estimates", "hookline_capacity_error_ratio"),
            make.each("Sleep state", "hookline_engine_sleep_state"),
            make.distribution(
                "Duration of sleep and wake-up", "hookline_sleep_operation_seconds"
            ),
            make.totals(
                "Sleep and wake-up in flight", "hookline_sleep_operations_in_flight"
            ),
            make.totals(
                "Conservation residue",
                "hookline_conservation_residue",
                alarm=Alarm.UNEQUAL_ZERO,
            ),
        ),
    )


def cache(make: StandardPanels) -> Row:
    return Row(
        title="Cache",
        is_open=True,
        panels=(
            make.each("KV cache usage", "hookline_kv_cache_usage_ratio"),
            make.totals("KV blocks", "hookline_kv_blocks", style=Style.STACKED),
            make.totals(
                "KV tokens", "hookline_kv_tokens", "hookline_kv_capacity_tokens"
            ),
            make.each(
                "Prefix cache hit rate (last 1000 requests)",
                "hookline_prefix_cache_hit_ratio",
            ),
            make.share(
                "Prefix cache hit rate",
                "hookline_prefix_cache_hit_tokens",
                "hookline_prefix_cache_queried_tokens",
            ),
            make.rates(
                "Prompt tokens by source",
                "hookline_prompt_tokens",
                style=Style.STACKED,
            ),
            make.rates(
                "Cached tokens by place",
                "hookline_cached_tokens",
                style=Style.STACKED,
            ),
            make.rates(
                "Tokens evicted from the prefix cache",
                "hookline_prefix_cache_evicted_tokens",
            ),
            make.distribution(
                "Time of evictions per step", "hookline_prefix_cache_eviction_seconds"
            ),
            make.distribution(
                "KV block lifetime", "hookline_kv_block_lifetime_seconds"
            ),
            make.distribution(
                "KV block idle time before eviction",
                "hookline_kv_block_idle_before_evict_seconds",
            ),
            make.distribution(
                "Time between uses of a KV block", "hookline_kv_block_reuse_gap_seconds"
            ),
        ),
    )


def speculation(make: StandardPanels) -> Row:
    return Row(
        title="Speculative decoding",
        panels=make.named("hookline_spec_decode_", _SPECULATION_TITLES),
    )


def structured_outputs(make: StandardPanels) -> Row:
    return Row(
        title="Structured outputs",
        panels=make.named("hookline_structured_output_", _STRUCTURED_TITLES),
    )


def kv_transfer(make: StandardPanels) -> Row:
    return Row(
        title="KV transfer",
        panels=(
            make.rates(
                "External cache tokens",
                "hookline_external_cache_queried_tokens",
                "hookline_external_cache_hit_tokens",
                "hookline_transferred_tokens",
            ),
            *make.named("hookline_kv_transfer_", _TRANSFER_TITLES),
            *make.named("hookline_kv_tier_", _TIER_TITLES),
        ),
    )


def model(make: StandardPanels) -> Row:
    return Row(
        title="Model",
        panels=(
            make.rates(
                "Time in the forward pass",
                "hookline_model_forward_seconds",
            ),
            make.each("Kernels being compiled", "hookline_kernels_compiling"),
            make.rates("Estimated FLOP/s", "hookline_estimated_flops"),
            make.rates(
                "Estimated memory traffic",
                "hookline_estimated_read_bytes",
                "hookline_estimated_write_bytes",
            ),
            make.distribution(
                "Forward pass per request", "hookline_request_model_forward_seconds"
            ),
            make.distribution(
                "Executor time per request", "hookline_request_model_execute_seconds"
            ),
            make.each("Threads that compute steps", "hookline_worker_threads"),
            make.rates(
                "Core time of these threads, and time without a core",
                "hookline_worker_thread_seconds",
            ),
            make.rates(
                "Time lost to waiting threads and to the CPU quota",
                "hookline_worker_barrier_wait_seconds",
                "hookline_worker_throttled_seconds",
            ),
            make.rates(
                "Time of exchanges between ranks, and of handing steps to them",
                "hookline_rank_exchange_seconds",
                "hookline_rank_handover_seconds",
            ),
            make.rates(
                "Tokens that the experts of each rank compute",
                "hookline_expert_tokens",
            ),
            make.share(
                "Load of the rank with the busiest experts, over the ranks' mean",
                "hookline_expert_busiest_tokens",
                "hookline_expert_tokens",
            ),
            make.share(
                "Share of the forward pass in which steps wait for other engines",
                "hookline_expert_wait_seconds",
                "hookline_model_forward_seconds",
            ),
            make.rates(
                "Dummy steps, for other engines that share experts",
                "hookline_dummy_steps",
            ),
            make.share(
                "Share of the pipeline stages' time in which they compute",
                "hookline_model_forward_seconds",
                "hookline_pipeline_stage_seconds",
            ),
            make.each("Startup phases", "hookline_startup_seconds", is_table=True),
        ),
    )
