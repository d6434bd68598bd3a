"""Metrics of sampled KV blocks: how long they live, lie idle and wait for reuse."""

from hookline.clock import NANOSECONDS
from hookline.metrics.buckets import BucketFamily
from hookline.metrics.metric import Feature, Kind, Metric
from hookline.metrics.readings import Reading, one
from hookline.stats import BlockEviction

RESIDENCY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_kv_block_lifetime_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="From a block's allocation to its eviction from the cache; sampled.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(BlockEviction, lambda block: one(block.lifetime / NANOSECONDS)),
    ),
    Metric(
        name="hookline_kv_block_idle_before_evict_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="From a block's last use to its eviction from the prefix cache; sampled.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(BlockEviction, lambda block: one(block.idle / NANOSECONDS)),
    ),
    Metric(
        name="hookline_kv_block_reuse_gap_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Between the last four uses of a block, told at its eviction; sampled.",
        buckets=BucketFamily.KV_CACHE_RESIDENCY,
        feature=Feature.RESIDENCY,
        value=Reading(
            BlockEviction,
            lambda block: [((), gap / NANOSECONDS, 1) for gap in block.reuse_gaps],
        ),
    ),
)
