"""vLLM's removed and renamed metric names, hidden by default.

These are the names of vLLM's version 0, and those of version 1 that were renamed since,
for dashboards that still use them. `--show-hidden-metrics-for-version 0.0` shows them.
"""

from collections.abc import Mapping

from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Alias, Kind, Metric
from hookline.metrics.readings import ALWAYS_ZERO, Reading, one
from hookline.stats import IterationStats

HIDDEN_SINCE = "0.1"


def _old(
    name: str,
    replaced_by: str,
    *,
    scale: float = 1.0,
    buckets: BucketFamily | None = None,
    zero: str | None = None,
) -> tuple[Alias, ...]:
    return (
        Alias(
            name=f"vllm:{name}",
            hidden_since=HIDDEN_SINCE,
            replaced_by=f"vllm:{replaced_by}",
            scale=scale,
            buckets=buckets,
            zero=zero,
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
    "vllm_swapped_requests": _old(
        "num_requests_swapped",
        "num_preemptions_total",
        zero="preempted requests are recomputed, never swapped out",
    ),
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
    Metric(
        name="vllm_swapped_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help="Always 0: preempted requests are recomputed, never swapped out.",
        is_own=False,
        value=ALWAYS_ZERO,
    ),
)

NOT_APPLICABLE: Mapping[str, str] = {
    "vllm:cpu_cache_usage_perc": "there is one block pool",
    "vllm:cpu_prefix_cache_hit_rate": "there is one block pool",
    "vllm:spec_decode_efficiency": "derive it from draft and accepted tokens",
    "vllm:spec_decode_num_emitted_tokens_total": "drafts + accepted tokens",
}
