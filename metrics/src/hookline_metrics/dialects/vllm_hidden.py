"""vLLM's renamed metric names, hidden by default.

They are for dashboards that still use them. `--show-hidden-metrics-for-version 0.0`
shows them. Names of version 0 that were dropped without another are in `vllm_v0`.
"""

from collections.abc import Mapping

from hookline.stats.iteration_stats import IterationStats
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Alias, Kind, Metric
from hookline_metrics.readings import Reading, one

HIDDEN_SINCE = "0.1"


def _old(
    name: str, replaced_by: str, *, buckets: BucketFamily | None = None
) -> tuple[Alias, ...]:
    return (
        Alias(
            name=f"vllm:{name}",
            hidden_since=HIDDEN_SINCE,
            replaced_by=f"vllm:{replaced_by}",
            buckets=buckets,
        ),
    )


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "hookline_kv_cache_usage_ratio": _old(
        "gpu_cache_usage_perc", "kv_cache_usage_perc"
    ),
    "hookline_prefix_cache_hit_ratio": _old(
        "gpu_prefix_cache_hit_rate", "prefix_cache_hits_total"
    ),
    "hookline_prefix_cache_queried_tokens": _old(
        "gpu_prefix_cache_queries", "prefix_cache_queries_total"
    ),
    "hookline_prefix_cache_hit_tokens": _old(
        "gpu_prefix_cache_hits", "prefix_cache_hits_total"
    ),
    "hookline_inter_token_seconds": _old(
        "time_per_output_token_seconds", "inter_token_latency_seconds"
    ),
    "hookline_request_queue_seconds": _old(
        "time_in_queue_requests",
        "request_queue_time_seconds",
        buckets=BucketFamily.REQUEST_LATENCY,
    ),
    "hookline_spec_decode_acceptance_ratio": _old(
        "spec_decode_draft_acceptance_rate",
        "spec_decode_num_accepted_tokens_total",
    ),
    "vllm_tokens": _old("tokens", "generation_tokens_total"),
}

ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Prompt and generated tokens together.",
        is_own=False,
        value=Reading(
            IterationStats,
            lambda iteration: one(
                iteration.prompt_tokens + iteration.generation_tokens
            ),
        ),
    ),
)
