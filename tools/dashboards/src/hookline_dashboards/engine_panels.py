"""Rows about the engine: its scheduler, its caches, its model."""

from hookline_dashboards.panel import Alarm, Row, Style
from hookline_dashboards.standard_panels import StandardPanels


def scheduler(make: StandardPanels) -> Row:
    return Row(
        title="Scheduler",
        is_open=True,
        panels=(
            make.means("Mean step by phase", "hookline_step_seconds"),
            make.tails("Slowest steps by phase", "hookline_step_seconds"),
            make.distribution("Requests in a step", "hookline_step_requests"),
            make.heatmap("Tokens in a step", "hookline_step_tokens"),
            make.rates("Steps", "hookline_step_tokens"),
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
                "Recomputed share",
                "hookline_recomputed_tokens",
                "hookline_computed_tokens",
            ),
            make.rates("Preemptions", "hookline_preemptions"),
            make.distribution(
                "Preemptions of a request", "hookline_request_preemptions"
            ),
            make.totals("Waiting tokens", "hookline_waiting_tokens"),
            make.each(
                "Oldest requests",
                "hookline_oldest_waiting_age_seconds",
                "hookline_oldest_running_age_seconds",
            ),
            make.each(
                "Signs of life",
                "hookline_last_step_age_seconds",
                "hookline_snapshot_age_seconds",
            ),
            make.each("Parts of saturation", "hookline_saturation_part_ratio"),
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
            make.each("Prefix cache hits of late", "hookline_prefix_cache_hit_ratio"),
            make.share(
                "Prefix cache hits",
                "hookline_prefix_cache_hit_tokens",
                "hookline_prefix_cache_queried_tokens",
            ),
            make.rates(
                "Prompt tokens by source",
                "hookline_prompt_tokens",
                style=Style.STACKED,
            ),
            make.distribution(
                "Lifetime of a block", "hookline_kv_block_lifetime_seconds"
            ),
            make.distribution(
                "Idle before eviction", "hookline_kv_block_idle_before_evict_seconds"
            ),
            make.distribution(
                "Between uses of a block", "hookline_kv_block_reuse_gap_seconds"
            ),
        ),
    )


def speculation(make: StandardPanels) -> Row:
    return Row(title="Speculation", panels=make.named("hookline_spec_decode_"))


def kv_transfer(make: StandardPanels) -> Row:
    return Row(
        title="KV transfer",
        panels=(
            make.rates(
                "Tokens from elsewhere",
                "hookline_external_cache_queried_tokens",
                "hookline_external_cache_hit_tokens",
            ),
            *make.named("hookline_kv_transfer_"),
            *make.named("hookline_kv_tier_"),
        ),
    )


def model(make: StandardPanels) -> Row:
    return Row(
        title="Model",
        panels=(
            make.rates(
                "Share of the time in the forward pass",
                "hookline_model_forward_seconds",
            ),
            make.rates("Estimated operations", "hookline_estimated_flops"),
            make.rates(
                "Estimated memory traffic",
                "hookline_estimated_read_bytes",
                "hookline_estimated_write_bytes",
            ),
            make.distribution(
                "Forward pass of a request", "hookline_request_model_forward_seconds"
            ),
            make.distribution(
                "Executor of a request", "hookline_request_model_execute_seconds"
            ),
            make.each("Start of the engine", "hookline_startup_seconds", is_table=True),
        ),
    )
