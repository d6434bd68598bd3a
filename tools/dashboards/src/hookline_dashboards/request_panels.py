"""Rows about requests: rates, latency, sizes, objectives, tenants."""

from hookline_dashboards.panel import Alarm, Row, Style
from hookline_dashboards.standard_panels import StandardPanels

_TENANT_TITLES = {
    "requests_finished": "Finished requests by tenant",
    "requests_limited": "Requests over a limit of their tenant or key",
    "prompt_tokens": "Prompt tokens by tenant",
    "cached_tokens": "Cached prompt tokens by tenant",
    "generation_tokens": "Generated tokens by tenant",
    "time_to_first_token_seconds": "Time to first token by tenant",
    "request_e2e_seconds": "End-to-end latency by tenant",
    "requests_waiting": "Waiting requests by tenant",
    "lag_tokens": "Tokens behind the tenant served most",
}

_ADAPTER_TITLES = {
    "requests": "Requests by adapter and state",
    "requests_finished": "Finished requests by adapter",
    "prompt_tokens": "Prompt tokens by adapter",
    "cached_tokens": "Cached prompt tokens by adapter",
    "generation_tokens": "Generated tokens by adapter",
    "draft_tokens": "Draft tokens by adapter",
    "time_to_first_token_seconds": "Time to first token by adapter",
    "time_per_output_token_seconds": "Time per output token by adapter",
    "queue_seconds": "Queue time by adapter",
    "wait_seconds": "Waits for adapters",
    "slo_misses": "Missed objectives by adapter",
    "kv_block_seconds": "KV blocks held by adapter",
    "loaded": "Adapters in slots and in memory",
    "slots": "Slots for adapters",
    "memory_bytes": "Main memory for adapters",
    "load_seconds": "Time to load an adapter",
    "loads": "Loads of adapters",
    "evictions": "Evictions of adapters",
}


def overview(make: StandardPanels) -> Row:
    return Row(
        title="Overview",
        is_open=True,
        panels=(
            make.totals("Engines up", "hookline_engine_up", style=Style.NUMBERS),
            make.totals(
                "Running and waiting requests",
                "hookline_requests_running",
                "hookline_requests_waiting",
            ),
            make.totals(
                "Generation throughput",
                "hookline_generation_tokens_per_second",
                style=Style.NUMBERS,
            ),
            make.each("Saturation", "hookline_saturation_ratio", alarm=Alarm.FROM_ONE),
            make.rates("Requests received", "hookline_requests_received"),
            make.rates("Requests finished", "hookline_requests_finished"),
            make.rates("Requests rejected", "hookline_requests_rejected"),
            make.rates("Requests over a limit", "hookline_requests_over_limit"),
            make.rates("Corrupted requests", "hookline_requests_corrupted"),
            make.rates(
                "Tokens per second",
                "hookline_prompt_tokens",
                "hookline_generation_tokens",
            ),
            make.each("Engines", "hookline_engine_info", is_table=True),
        ),
    )


def latency(make: StandardPanels) -> Row:
    return Row(
        title="Latency",
        is_open=True,
        panels=(
            make.distribution(
                "Time to first token", "hookline_time_to_first_token_seconds"
            ),
            make.distribution("Inter-token latency", "hookline_inter_token_seconds"),
            make.distribution(
                "Time per output token",
                "hookline_request_time_per_output_token_seconds",
            ),
            make.distribution("End-to-end latency", "hookline_request_e2e_seconds"),
            make.distribution(
                "Preparation in the front end", "hookline_request_preparation_seconds"
            ),
            make.means(
                "Mean request latency by phase",
                "hookline_request_queue_seconds",
                "hookline_request_prefill_seconds",
                "hookline_request_decode_seconds",
            ),
            make.distribution("Queue time", "hookline_request_queue_seconds"),
            make.distribution("Prefill time", "hookline_request_prefill_seconds"),
            make.distribution("Decode time", "hookline_request_decode_seconds"),
            make.distribution("Inference time", "hookline_request_inference_seconds"),
            make.distribution("Time preempted", "hookline_request_preempted_seconds"),
        ),
    )


def sizes(make: StandardPanels) -> Row:
    return Row(
        title="Request sizes",
        panels=(
            make.heatmap("Prompt length", "hookline_request_prompt_tokens"),
            make.heatmap(
                "Computed prompt tokens", "hookline_request_prefill_computed_tokens"
            ),
            make.heatmap("Generation length", "hookline_request_generation_tokens"),
            make.heatmap("max_tokens", "hookline_request_limit_tokens"),
            make.heatmap(
                "Longest of n generations",
                "hookline_request_group_max_generation_tokens",
            ),
            make.distribution(
                "Completions per request (n)", "hookline_request_completions"
            ),
            make.rates(
                "Prompt tokens by source, each prompt once",
                "hookline_request_group_prompt_tokens",
                style=Style.STACKED,
            ),
        ),
    )


def slo(make: StandardPanels) -> Row:
    return Row(
        title="SLO",
        panels=(
            make.each("SLO attainment (60 s)", "hookline_slo_attainment_ratio"),
            make.totals("Goodput (60 s)", "hookline_goodput_requests_per_second"),
            make.rates("Evaluated requests by outcome", "hookline_slo_requests"),
            make.rates("Missed objectives by phase", "hookline_slo_misses"),
        ),
    )


def tenants(make: StandardPanels) -> Row:
    return Row(
        title="Tenants",
        panels=make.named("hookline_tenant_", _TENANT_TITLES),
    )


def adapters(make: StandardPanels) -> Row:
    return Row(
        title="Adapters",
        panels=(
            make.each("Adapters by level", "hookline_adapters"),
            *make.named("hookline_adapter_", _ADAPTER_TITLES),
        ),
    )
