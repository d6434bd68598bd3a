"""Names of SGLang's storage behind host memory: here, the tier on disk."""

from collections.abc import Callable, Iterable

from hookline_metrics.dialects.sglang_labels import Names, radix_cache
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading
from hookline_metrics.transfer_stats import TierStats, transfers_of

_TIER, _HOST = "disk", "cpu"
_BACKEND = {"storage_backend": "file"}

NAMES: Names = {
    "hookline_kv_tier_lookup_tokens": (
        radix_cache(
            "storage_prefetch_hit_tokens",
            only={"tier": _TIER, "result": "hit"},
            add=_BACKEND,
        ),
    ),
    "sglang_prefetched_tokens": (radix_cache("prefetched_tokens"),),
    "sglang_backuped_tokens": (radix_cache("backuped_tokens"),),
    "sglang_hicache_backup_dropped_tokens": (
        radix_cache("hicache_backup_dropped_tokens"),
    ),
}


def _of_storage(
    name: str, text: str, blocks: Callable[[TierStats, int], int]
) -> Metric:
    """`blocks` reads a number of blocks from the tier and the bytes of a block."""

    def points(state: StateReading) -> Iterable[Point]:
        tiers = transfers_of(state.stats).tiers
        tier, host = tiers.get(_TIER), tiers.get(_HOST)
        # The limit on disk need not be a whole number of blocks; that of memory is.
        if tier is None or host is None or not host.max_blocks:
            return
        number = blocks(tier, host.max_bytes // host.max_blocks)
        yield (_BACKEND["storage_backend"],), number * state.facts.block_size, 1

    return Metric(
        name=f"sglang_{name}",
        kind=Kind.COUNTER,
        unit="tokens",
        help=text,
        labels=(Label("storage_backend"),),
        is_own=False,
        value=Reading(StateReading, points),
    )


ONLY_THERE: tuple[Metric, ...] = (
    _of_storage(
        "prefetched_tokens",
        "Tokens whose KV was loaded from disk.",
        lambda tier, size: tier.out_bytes // size,
    ),
    _of_storage(
        "backuped_tokens",
        "Tokens whose KV was written to disk.",
        lambda tier, size: tier.in_bytes // size,
    ),
    _of_storage(
        "hicache_backup_dropped_tokens",
        "Tokens whose KV could not be written to disk.",
        lambda tier, _: tier.dropped_blocks,
    ),
)
