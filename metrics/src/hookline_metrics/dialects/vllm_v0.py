"""Metric names of vLLM's version 0 that version 1 dropped without another name.

Hidden by default like all deprecated names; `--show-hidden-metrics-for-version 0.0`
shows them.
"""

from collections.abc import Callable, Iterable, Mapping

from hookline_metrics.dialects.vllm_hidden import HIDDEN_SINCE
from hookline_metrics.metric import Alias, Kind, Metric, Point
from hookline_metrics.readings import (
    ALWAYS_ZERO,
    LiveReading,
    Reading,
    StateReading,
    StepReading,
    one,
)
from hookline_metrics.transfer_stats import TierStats, transfers_of

_HOST_TIER = "cpu"
"""Our name of a connector's tier in host memory."""

_NO_TIER = TierStats()

_NO_SWAP = "preempted requests are recomputed, never swapped out"


def _old(name: str, replaced_by: str, *, zero: str | None = None) -> tuple[Alias, ...]:
    return (
        Alias(
            name=f"vllm:{name}",
            hidden_since=HIDDEN_SINCE,
            replaced_by=replaced_by,
            zero=zero,
        ),
    )


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "vllm_swapped_requests": _old(
        "num_requests_swapped", "vllm:num_preemptions_total", zero=_NO_SWAP
    ),
    "vllm_host_tier_usage": _old(
        "cpu_cache_usage_perc", "hookline_kv_tier_used_blocks"
    ),
    "vllm_host_tier_hit_rate": _old(
        "cpu_prefix_cache_hit_rate", "hookline_kv_tier_lookup_tokens_total"
    ),
    "vllm_speculation_efficiency": _old(
        "spec_decode_efficiency", "vllm:spec_decode_num_accepted_tokens_total"
    ),
    "vllm_emitted_tokens": _old(
        "spec_decode_num_emitted_tokens", "vllm:spec_decode_num_accepted_tokens_total"
    ),
    "vllm_prompt_throughput": _old(
        "avg_prompt_throughput_toks_per_s", "vllm:prompt_tokens_total"
    ),
    "hookline_generation_tokens_per_second": _old(
        "avg_generation_throughput_toks_per_s", "vllm:generation_tokens_total"
    ),
}


def _host_tier(number: Callable[[TierStats], float]) -> Reading[StateReading]:
    def points(state: StateReading) -> Iterable[Point]:
        return one(number(transfers_of(state.stats).tiers.get(_HOST_TIER, _NO_TIER)))

    return Reading(StateReading, points)


def _usage(tier: TierStats) -> float:
    return tier.blocks / tier.max_blocks if tier.max_blocks else 0.0


def _hit_rate(tier: TierStats) -> float:
    looked_up = tier.hit_tokens + tier.missed_tokens
    return tier.hit_tokens / looked_up if looked_up else 0.0


ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_swapped_requests",
        kind=Kind.GAUGE,
        unit="requests",
        help=f"Always 0: {_NO_SWAP}.",
        is_own=False,
        value=ALWAYS_ZERO,
    ),
    Metric(
        name="vllm_host_tier_usage",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Fraction of the blocks in use, 0 to 1, of the tier in host memory that "
        "the KV connector cpu_offload keeps; 0 without that connector.",
        is_own=False,
        value=_host_tier(_usage),
    ),
    Metric(
        name="vllm_host_tier_hit_rate",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Hit rate since the start, 0 to 1 in tokens, of the tier in host memory "
        "that the KV connector cpu_offload keeps; 0 before the first lookup and "
        "without that connector.",
        is_own=False,
        value=_host_tier(_hit_rate),
    ),
    Metric(
        name="vllm_speculation_efficiency",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Tokens that drafts emitted over the last 60 seconds / the most that they "
        "could have emitted, which is one more than the maximum of draft tokens for "
        "each draft; 0 without drafts.",
        is_own=False,
        value=Reading(LiveReading, lambda live: one(live.speculation.efficiency)),
    ),
    Metric(
        name="vllm_emitted_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Number of tokens that drafts emitted: those accepted, and one of the "
        "target model for each draft.",
        is_own=False,
        value=Reading(
            StepReading,
            lambda step: one(
                step.record.verified.accepted_tokens + step.record.verified.drafts
            ),
        ),
    ),
    Metric(
        name="vllm_prompt_throughput",
        kind=Kind.GAUGE,
        unit="1",
        help="Prompt throughput over the last 10 seconds, in tokens per second; "
        "cached tokens included, and counted at the request's first token.",
        is_own=False,
        value=Reading(LiveReading, lambda live: one(live.prompt_rate)),
        needs=(),
    ),
)
