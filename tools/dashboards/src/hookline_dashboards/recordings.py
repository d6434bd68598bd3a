"""Recording rules for alerts, autoscalers and reports."""

from hookline_dashboards.rule import Group, Recording

_LATENCIES = (
    "hookline_time_to_first_token_seconds",
    "hookline_inter_token_seconds",
    "hookline_request_e2e_seconds",
    "hookline_request_queue_seconds",
)
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SATURATION_TARGET = 0.7  # see docs/saturation.md
SLO_WINDOWS = ("5m", "30m", "1h", "6h")


def _engine() -> tuple[Recording, ...]:
    finished = (
        "sum without (reason) "
        '(rate(hookline_requests_finished_total{reason!="rejected"}[5m]))'
    )
    return (
        Recording("engine:hookline_requests_finished:rate5m", finished),
        Recording(
            "engine:hookline_prompt_tokens:rate5m",
            "sum without (source) (rate(hookline_prompt_tokens_total[5m]))",
        ),
        Recording(
            "engine:hookline_generation_tokens:rate5m",
            "rate(hookline_generation_tokens_total[5m])",
        ),
        Recording(
            "engine:hookline_preemptions_per_finished:ratio_rate5m",
            f"rate(hookline_preemptions_total[5m])\n/\n{finished}",
        ),
        Recording(
            "engine:hookline_recomputed_tokens:ratio_rate5m",
            "rate(hookline_recomputed_tokens_total[5m])\n/\n"
            "rate(hookline_computed_tokens_total[5m])",
        ),
        Recording(
            "engine:hookline_prefix_cache_hit_tokens:ratio_rate5m",
            "rate(hookline_prefix_cache_hit_tokens_total[5m])\n/\n"
            "rate(hookline_prefix_cache_queried_tokens_total[5m])",
        ),
        Recording(
            "engine:hookline_saturation_ratio:avg1m",
            "avg_over_time(hookline_saturation_ratio[1m])",
        ),
        Recording(
            "engine:hookline_kv_cache_usage_ratio:avg5m",
            "avg_over_time(hookline_kv_cache_usage_ratio[5m])",
        ),
    )


def _model() -> tuple[Recording, ...]:
    ended = 'hookline_requests_finished_total{reason!="rejected"}'
    failed = 'hookline_requests_finished_total{reason="error"}'
    return (
        Recording(
            "model_name:hookline_requests_finished:rate5m",
            f"sum by (model_name) (rate({ended}[5m]))",
        ),
        Recording(
            "model_name:hookline_generation_tokens:rate5m",
            "sum by (model_name) (rate(hookline_generation_tokens_total[5m]))",
        ),
        Recording(
            "model_name:hookline_request_errors:ratio_rate5m",
            f"sum by (model_name) (rate({failed}[5m]))\n/\n"
            f"sum by (model_name) (rate({ended}[5m]))",
        ),
        Recording(
            "model_name:hookline_saturation_ratio:avg1m",
            "avg by (model_name) (avg_over_time(hookline_saturation_ratio[1m]))",
        ),
        Recording(
            "model_name:hookline_saturation_ratio:max1m",
            "max by (model_name) (avg_over_time(hookline_saturation_ratio[1m]))",
        ),
        Recording(
            "model_name:hookline_saturation_ratio:engines_needed",
            "ceil(sum by (model_name) (avg_over_time(hookline_saturation_ratio[1m]))"
            f" / {_SATURATION_TARGET})",
        ),
    )


def _latency(metric: str, word: str, share: float) -> Recording:
    return Recording(
        f"model_name:{metric}:{word}_5m",
        f"histogram_quantile({share}, "
        f"sum by (model_name, le) (rate({metric}_bucket[5m])))",
    )


def _attainment(window: str) -> Recording:
    met = f'hookline_slo_requests_total{{outcome="met"}}[{window}]'
    judged = f"hookline_slo_requests_total[{window}]"
    return Recording(
        f"model_name:hookline_slo_attainment:ratio_rate{window}",
        f"sum by (model_name) (rate({met}))\n/\nsum by (model_name) (rate({judged}))",
    )


def _http() -> tuple[Recording, ...]:
    # A status has no series before its first response; a missing series counts as 0.
    answered = "sum by (job) (rate(hookline_http_requests_total[5m]))"
    failed = 'sum by (job) (rate(hookline_http_requests_total{status="5xx"}[5m]))'
    return (
        Recording(
            "job:hookline_http_errors:ratio_rate5m",
            f"({failed} or 0 * {answered})\n/\n{answered}",
        ),
    )


RECORDING_GROUPS: tuple[Group, ...] = (
    Group("hookline_engine", _engine()),
    Group("hookline_model", _model()),
    Group(
        "hookline_latency",
        tuple(
            _latency(metric, word, share)
            for metric in _LATENCIES
            for word, share in _QUANTILES.items()
        ),
    ),
    Group("hookline_slo", tuple(map(_attainment, SLO_WINDOWS))),
    Group("hookline_http", _http()),
)
