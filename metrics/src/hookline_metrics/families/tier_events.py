"""Histograms of what happens in the tiers of a KV connector; none without tiers."""

from hookline.clock import NANOSECONDS
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.connector_events import TierAllocation, TierLookup, TierMove
from hookline_metrics.families.tiers import DIRECTION, TIER
from hookline_metrics.metric import Kind, Label, Metric
from hookline_metrics.readings import Reading

_RESULTS = ("success", "failure")

TIER_EVENT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_kv_tier_lookup_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time that a look-up of a waiting request spent in a tier, for which the "
        "scheduler waits; a request may be looked up several times.",
        labels=(TIER,),
        buckets=BucketFamily.KV_LOOKUP,
        value=Reading(
            TierLookup,
            lambda lookup: [((lookup.tier,), lookup.nanoseconds / NANOSECONDS, 1)],
        ),
    ),
    Metric(
        name="hookline_kv_tier_allocation_blocks",
        kind=Kind.HISTOGRAM,
        unit="blocks",
        help="KV blocks for which a store asked room in a tier, whether or not there "
        "was any.",
        labels=(TIER,),
        buckets=BucketFamily.TIER_BLOCKS,
        value=Reading(TierAllocation, lambda store: [((store.tier,), store.blocks, 1)]),
    ),
    Metric(
        name="hookline_kv_tier_move_size_bytes",
        kind=Kind.HISTOGRAM,
        unit="bytes",
        help="Bytes moved by each store into a tier (in) and each load from it (out); "
        "those that moved nothing are left out. The sum is "
        "hookline_kv_tier_moved_bytes.",
        labels=(TIER, DIRECTION),
        buckets=BucketFamily.TIER_MOVE_BYTES,
        value=Reading(
            TierMove,
            lambda move: (
                [((move.tier, move.direction), move.bytes, 1)] if move.bytes else []
            ),
        ),
    ),
    Metric(
        name="hookline_kv_tier_move_duration_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time from the order of a store into a tier (in) or of a load from it "
        "(out) to its end, waiting for a thread included, by result.",
        labels=(TIER, DIRECTION, Label("result", _RESULTS)),
        buckets=BucketFamily.TIER_MOVE_DURATION,
        value=Reading(
            TierMove,
            lambda move: [
                (
                    (move.tier, move.direction, _RESULTS[not move.is_good]),
                    move.nanoseconds / NANOSECONDS,
                    1,
                )
            ],
        ),
    ),
)
