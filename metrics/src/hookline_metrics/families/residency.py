"""Metrics of sampled KV blocks: lifetime, idle time and time between uses."""

from hookline.clock import NANOSECONDS
from hookline.stats.step_work import BlockEviction
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Feature, Kind, Metric
from hookline_metrics.readings import Reading, one

RESIDENCY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_kv_block_lifetime_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time from a KV block's allocation to its eviction from the prefix "
        "cache; of sampled blocks.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(BlockEviction, lambda block: one(block.lifetime / NANOSECONDS)),
    ),
    Metric(
        name="hookline_kv_block_idle_before_evict_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time from a KV block's last use to its eviction from the prefix cache; "
        "of sampled blocks.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(BlockEviction, lambda block: one(block.idle / NANOSECONDS)),
    ),
    Metric(
        name="hookline_kv_block_reuse_gap_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time between consecutive uses of a KV block (its last four), observed "
        "at its eviction; of sampled blocks.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(
            BlockEviction,
            lambda block: [((), gap / NANOSECONDS, 1) for gap in block.reuse_gaps],
        ),
    ),
)
