"""Names of SGLang's hierarchical cache: host memory behind the prefix cache."""

from collections.abc import Iterable

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.dialects.sglang_labels import Names, radix_cache, scheduler
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading
from hookline_metrics.transfer_stats import transfers_of

_TIER = "cpu"
"""The tier that is SGLang's host memory."""

_HOST = {"tier": _TIER}
_KV = {"pool": "kv"}

NAMES: Names = {
    "hookline_kv_tier_used_tokens": (
        scheduler("hicache_host_used_tokens", only=_HOST),
    ),
    "hookline_kv_tier_limit_tokens": (
        scheduler("hicache_host_total_tokens", only=_HOST),
    ),
    "hookline_kv_tier_lookup_tokens": (
        radix_cache("load_back_tokens", only={**_HOST, "result": "hit"}, add=_KV),
    ),
    "hookline_kv_tier_moved_bytes": (
        radix_cache("load_back_bytes", only={**_HOST, "direction": "out"}),
        radix_cache("hicache_backup_bytes", only={**_HOST, "direction": "in"}),
    ),
    "hookline_kv_tier_move_duration_seconds": (
        radix_cache(
            "hicache_backup_duration_seconds",
            only={**_HOST, "direction": "in", "result": "success"},
            buckets=BucketFamily.SGLANG_BACKUP,
        ),
    ),
    "hookline_kv_transfer_load_seconds": (
        radix_cache("load_back_duration_seconds", buckets=BucketFamily.SGLANG_CACHE),
    ),
    "sglang_hicache_backup_tokens": (radix_cache("hicache_backup_tokens"),),
    "sglang_hicache_dropped_tokens": (radix_cache("hicache_dropped_tokens"),),
}


def _stored(state: StateReading) -> Iterable[Point]:
    tier = transfers_of(state.stats).tiers.get(_TIER)
    if tier is None or not tier.max_blocks:
        return
    blocks = tier.in_bytes // (tier.max_bytes // tier.max_blocks)
    yield ("kv",), blocks * state.facts.block_size, 1


def _dropped(state: StateReading) -> Iterable[Point]:
    if (tier := transfers_of(state.stats).tiers.get(_TIER)) is not None:
        tokens = (tier.dropped_blocks - tier.failed_blocks) * state.facts.block_size
        yield ("host_pressure", "kv"), tokens, 1


ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="sglang_hicache_backup_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens whose KV was copied to host memory.",
        labels=(Label("pool"),),
        is_own=False,
        value=Reading(StateReading, _stored),
    ),
    Metric(
        name="sglang_hicache_dropped_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens evicted from the prefix cache for which there was no room in host "
        "memory.",
        labels=(Label("reason"), Label("pool")),
        is_own=False,
        value=Reading(StateReading, _dropped),
    ),
)
