"""Which metrics a gateway feeds: what nothing tells it is left out, not 0."""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_gateway.upstreams.load import Load
from hookline_metrics.config import MetricsConfig
from hookline_metrics.metric import Metric, Scope
from hookline_metrics.untold import names_not_fed

RUNNING = "hookline_requests_running"
WAITING = "hookline_requests_waiting"
KV_USAGE = "hookline_kv_cache_usage_ratio"
CONTEXT = "hookline_context_length_tokens"
TOLD = (RUNNING, WAITING, KV_USAGE, CONTEXT)
"""Metrics of engines that some upstreams tell themselves."""

GATEWAY = "gateway"
"""The label `model_name` of what is not of one upstream, such as HTTP."""

_READINGS = (FinishedGroup, FinishedRequest, FirstToken, IterationStats)
"""What is observed of requests, whoever serves them."""

_OF_READINGS = frozenset(
    {
        "hookline_requests_received",
        "hookline_engine_up",
        "hookline_engine_restarts",
        "hookline_generation_tokens_per_second",
        "hookline_slo_attainment_ratio",
        "hookline_goodput_requests_per_second",
        "hookline_snapshot_age_seconds",
        "vllm_prompt_throughput",
        *TOLD,
    }
)
_UNSEEN = frozenset(
    {
        "hookline_requests_over_limit",
        "hookline_request_inference_seconds",
        "hookline_request_prefill_computed_tokens",
        "hookline_request_prefill_seconds",
        "hookline_request_group_prompt_tokens",
        "hookline_requests_corrupted",
        "hookline_requests_taken_over",
        "hookline_tenant_requests_limited",
        "sglang_structured_requests",
    }
)
_UNSEEN_PARTS = ("_last_", "preempt", "_model_")
"""Parts of names of requests' phases inside an engine."""

_FRONT_END = ("_http_re", "_logger_", "_page_", "_label_")


def untold(load: Load | None, max_model_len: int | None) -> tuple[str, ...]:
    """Returns the metrics that an upstream with this load does not tell."""
    told = {
        RUNNING: load is not None,
        WAITING: load is not None,
        KV_USAGE: load is not None and load.has_kv_usage,
        CONTEXT: max_model_len is not None,
    }
    return tuple(name for name, is_told in told.items() if not is_told)


def without_unfed(config: EngineConfig) -> EngineConfig:
    """Returns the configuration without the metrics that a gateway cannot feed."""
    metrics = MetricsConfig.of(config)
    excluded = replace(metrics, exclude=(*metrics.exclude, *names_not_fed(is_fed)))
    return replace(
        config,
        model=replace(config.model, served_model_name=GATEWAY),
        sections={**config.sections, MetricsConfig.key: excluded},
    )


def is_fed(metric: Metric) -> bool:
    """Whether a gateway, or what an upstream tells, feeds a metric."""
    if metric.scope is Scope.FRONT_END:
        return any(part in metric.name for part in _FRONT_END)
    if metric.name in _OF_READINGS:
        return True
    if metric.name in _UNSEEN or any(part in metric.name for part in _UNSEEN_PARTS):
        return False
    return metric.value.kind in _READINGS
