"""What an attached vLLM tells, by the part that tells it, and which metrics that feeds.

All others are left out of the loggers' pages, because a 0 would be wrong.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from hookline.config.engine import EngineConfig
from hookline.payloads import EngineFacts, EngineStarted, HttpExchange, PageStats
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.step_work import BlockEviction
from hookline_metrics.catalogue import CATALOGUE
from hookline_metrics.config import MetricsConfig
from hookline_metrics.front_end_parts import ObserverStats
from hookline_metrics.metric import Metric, Scope
from hookline_metrics.readings import FoldedValues, HttpLoad
from hookline_metrics.untold import UNTOLD, names_not_fed
from hookline_registry import LaneStats

LOAD, USAGE, CACHE, CONFIG = "load", "usage", "cache", "config"
EVENTS, CONTENT, PLAN, EVICTIONS = "events", "content", "plan", "evictions"

TOLD_BY: Final[Mapping[str, Collection[str]]] = {
    "stat logger": (LOAD, USAGE, CACHE, CONFIG),
    "wraps of OutputProcessor": (EVENTS, CONTENT),
    # Only recorders get these: the loggers are in another process than the scheduler.
    "wrapped scheduler": (PLAN,),
}
"""By part; never told are steps, blocks, drafts and cost."""

_BY_KIND: Final[Mapping[type, str]] = {
    EngineFacts: CONFIG,
    EngineStarted: CONFIG,
    FinishedRequest: LOAD,
    FinishedGroup: EVENTS,
    FirstToken: LOAD,
    FirstScheduled: EVENTS,
    IterationStats: LOAD,
    BlockEviction: EVICTIONS,
}
"""What metrics of readings of a kind need, but for those below."""

_BY_NAME: Final[Mapping[str, str]] = {
    "hookline_engine_sleep_state": CONFIG,
    "hookline_engine_up": CONFIG,
    "hookline_snapshot_age_seconds": CONFIG,
    "hookline_requests_received": LOAD,
    "hookline_requests_running": LOAD,
    "hookline_requests_waiting": LOAD,
    "hookline_preemptions": LOAD,
    "hookline_generation_tokens_per_second": LOAD,
    "hookline_slo_attainment_ratio": EVENTS,
    "hookline_goodput_requests_per_second": EVENTS,
    "vllm_prompt_throughput": LOAD,
    "hookline_kv_cache_usage_ratio": USAGE,
    "hookline_prefix_cache_queried_tokens": CACHE,
    "hookline_prefix_cache_hit_tokens": CACHE,
    "hookline_waiting_tokens": EVENTS,
    "hookline_request_completions": EVENTS,
    "hookline_request_preparation_seconds": EVENTS,
    "hookline_request_last_scheduled_seconds": EVENTS,
    "hookline_request_last_prefill_seconds": EVENTS,
    "hookline_request_last_decode_seconds": EVENTS,
    "hookline_request_last_inference_seconds": EVENTS,
    "hookline_request_preempted_seconds": EVENTS,
    "hookline_request_time_per_output_token_seconds": EVENTS,
    "sglang_request_time_per_output_token_seconds": EVENTS,
    "hookline_request_prefill_seconds": EVENTS,
    "hookline_slo_requests": EVENTS,
    "hookline_slo_misses": EVENTS,
}

_NEVER: Final = frozenset(
    {
        "hookline_kv_capacity_bytes",
        "hookline_startup_seconds",
        "hookline_requests_corrupted",
        "hookline_requests_over_limit",
        "hookline_request_model_forward_seconds",
        "hookline_request_model_execute_seconds",
        "hookline_requests_moved",
        "hookline_requests_taken_over",
        "hookline_tenant_requests_limited",
        "sglang_structured_requests",
    }
)
"""Nothing of vLLM's feeds these, though others of their kinds are fed."""

_FRONT_END: Final = frozenset({FoldedValues, HttpExchange, HttpLoad, LaneStats})
"""Readings of what is no engine's."""

_OF_PROCESS: Final = frozenset({ObserverStats, PageStats})
"""Readings of an observer process."""

_OF_PAGES: Final = "hookline_page_"
"""How metrics of a logger's own page begin."""


def told(config: Any, *, tells_requests: bool) -> Collection[str]:
    """Returns what loggers are told of an engine with a `VllmConfig`."""
    found = {*TOLD_BY["stat logger"]}
    if tells_requests:
        found.update(TOLD_BY["wraps of OutputProcessor"])
    observability = getattr(config, "observability_config", None)
    if getattr(observability, "kv_cache_metrics", False):
        found.add(EVICTIONS)
    return found


def untold(tells: Collection[str]) -> Mapping[str, object]:
    """Returns the section of an engine's facts: the metrics that nothing feeds."""
    names = [
        each.name
        for each in CATALOGUE
        if each.scope is not Scope.FRONT_END and _need(each) not in tells
    ]
    return {UNTOLD: {"metrics": names}}


def without_unfed(config: EngineConfig, *, has_process: bool) -> EngineConfig:
    """Returns the configuration without the metrics of what no server here tells.

    Args:
        config: The configuration.
        has_process: Whether the loggers have a process of their own.
    """
    metrics = MetricsConfig.of(config)
    fed = _FRONT_END | (_OF_PROCESS if has_process else frozenset())
    names = names_not_fed(partial(_is_fed, fed))
    excluded = replace(metrics, exclude=(*metrics.exclude, *names))
    return replace(config, sections={**config.sections, MetricsConfig.key: excluded})


def _need(metric: Metric) -> str | None:
    """Returns what has to be told for a metric; None if it is never."""
    if metric.name in _NEVER:
        return None
    return _BY_NAME.get(metric.name) or _BY_KIND.get(metric.value.kind)


def _is_fed(fed: Collection[type], metric: Metric) -> bool:
    if metric.scope is not Scope.FRONT_END or metric.name.startswith(_OF_PAGES):
        return True
    return metric.value.kind in fed
