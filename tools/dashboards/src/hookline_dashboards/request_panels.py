"""Rows about requests: how many, how long, how large, whose, and as promised or not."""

from hookline_dashboards.panel import Alarm, Row, Style
from hookline_dashboards.standard_panels import StandardPanels


def overview(make: StandardPanels) -> Row:
    return Row(
        title="Overview",
        is_open=True,
        panels=(
            make.totals("Engines up", "hookline_engine_up", style=Style.NUMBERS),
            make.totals(
                "Running and waiting",
                "hookline_requests_running",
                "hookline_requests_waiting",
            ),
            make.totals(
                "Generation of late",
                "hookline_generation_tokens_per_second",
                style=Style.NUMBERS,
            ),
            make.each("Saturation", "hookline_saturation_ratio", alarm=Alarm.FROM_ONE),
            make.rates("Requests received", "hookline_requests_received"),
            make.rates("Requests finished", "hookline_requests_finished"),
            make.rates("Requests rejected", "hookline_requests_rejected"),
            make.rates(
                "Tokens", "hookline_prompt_tokens", "hookline_generation_tokens"
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
            make.distribution("End to end", "hookline_request_e2e_seconds"),
            make.means(
                "Mean request by phase",
                "hookline_request_queue_seconds",
                "hookline_request_prefill_seconds",
                "hookline_request_decode_seconds",
            ),
            make.distribution("Queue", "hookline_request_queue_seconds"),
            make.distribution("Prefill", "hookline_request_prefill_seconds"),
            make.distribution("Decode", "hookline_request_decode_seconds"),
            make.distribution("Inference", "hookline_request_inference_seconds"),
            make.distribution(
                "Stalled by preemption", "hookline_request_preempted_seconds"
            ),
        ),
    )


def sizes(make: StandardPanels) -> Row:
    return Row(
        title="Sizes of requests",
        panels=(
            make.heatmap("Prompt", "hookline_request_prompt_tokens"),
            make.heatmap("Prompt computed", "hookline_request_prefill_computed_tokens"),
            make.heatmap("Generation", "hookline_request_generation_tokens"),
            make.heatmap("Limit of generation", "hookline_request_limit_tokens"),
            make.heatmap(
                "Longest of n completions",
                "hookline_request_group_max_generation_tokens",
            ),
            make.distribution(
                "Completions of a request", "hookline_request_completions"
            ),
        ),
    )


def slo(make: StandardPanels) -> Row:
    return Row(
        title="SLO",
        panels=(
            make.each("Attainment of late", "hookline_slo_attainment_ratio"),
            make.totals("Goodput of late", "hookline_goodput_requests_per_second"),
            make.rates("Judged requests", "hookline_slo_requests"),
            make.rates(
                "Missed objectives and the phase to blame", "hookline_slo_misses"
            ),
        ),
    )


def tenants(make: StandardPanels) -> Row:
    return Row(title="Tenants", panels=make.named("hookline_tenant_"))
