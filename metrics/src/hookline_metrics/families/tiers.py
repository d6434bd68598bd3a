"""Metrics of the tiers of KV blocks that a connector keeps; none without tiers."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline_metrics.metric import Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, by_label
from hookline_metrics.transfer_stats import MOST_TIERS, TierStats, transfers_of

TIER = Label("tier", cap=MOST_TIERS)
DIRECTION = Label("direction", ("in", "out"))


def _share(blocks: int, tier: TierStats) -> float:
    return blocks / tier.max_blocks if tier.max_blocks else 0.0


def _info(state: StateReading) -> Iterable[Point]:
    block_tokens = state.facts.block_size
    for name, tier in transfers_of(state.stats).tiers.items():
        block_bytes = tier.max_bytes // tier.max_blocks if tier.max_blocks else 0
        facts = (tier.max_blocks, block_bytes, tier.max_blocks * block_tokens)
        yield (name, *map(str, facts)), 1, 1


def _of_each(
    name: str, kind: Kind, unit: str, text: str, number: Callable[[TierStats], float]
) -> Metric:
    def points(state: StateReading) -> Iterable[Point]:
        tiers = transfers_of(state.stats).tiers
        return by_label({tier: number(stats) for tier, stats in tiers.items()})

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=kind,
        unit=unit,
        help=text,
        labels=(TIER,),
        value=Reading(StateReading, points),
    )


def _in_tokens(name: str, text: str, blocks: Callable[[TierStats], int]) -> Metric:
    """Returns a gauge of a number of blocks, in tokens."""

    def points(state: StateReading) -> Iterable[Point]:
        size, tiers = state.facts.block_size, transfers_of(state.stats).tiers
        return by_label({tier: blocks(stats) * size for tier, stats in tiers.items()})

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=Kind.GAUGE,
        unit="tokens",
        help=text,
        labels=(TIER,),
        value=Reading(StateReading, points),
    )


def _both(
    name: str,
    unit: str,
    text: str,
    label: Label,
    numbers: Callable[[TierStats], tuple[float, float]],
    *,
    kind: Kind = Kind.COUNTER,
) -> Metric:
    """Returns a metric with a series per tier and value of the label."""

    def points(state: StateReading) -> Iterable[Point]:
        for tier, stats in transfers_of(state.stats).tiers.items():
            for value, number in zip(label.values, numbers(stats), strict=True):
                yield (tier, value), number, 1

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=kind,
        unit=unit,
        help=text,
        labels=(TIER, label),
        value=Reading(StateReading, points),
    )


TIER_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_kv_tier_info",
        kind=Kind.GAUGE,
        unit="1",
        help="Size of a tier of the KV connector, as labels: its capacity in KV blocks "
        "and in tokens, and the bytes of a block. The value is always 1.",
        labels=(
            TIER,
            *(Label(name) for name in ("blocks", "block_bytes", "capacity_tokens")),
        ),
        value=Reading(StateReading, _info),
    ),
    _of_each(
        "used_blocks",
        Kind.GAUGE,
        "blocks",
        "KV blocks stored in a tier of the KV connector.",
        lambda tier: tier.blocks,
    ),
    _of_each(
        "limit_blocks",
        Kind.GAUGE,
        "blocks",
        "Capacity of a tier in KV blocks.",
        lambda tier: tier.max_blocks,
    ),
    _of_each(
        "used_bytes",
        Kind.GAUGE,
        "bytes",
        "Bytes of the KV blocks stored in a tier of the KV connector.",
        lambda tier: tier.bytes,
    ),
    _of_each(
        "limit_bytes",
        Kind.GAUGE,
        "bytes",
        "Capacity of a tier in bytes.",
        lambda tier: tier.max_bytes,
    ),
    _in_tokens(
        "used_tokens",
        "Tokens whose KV is stored in a tier of the KV connector.",
        lambda tier: tier.blocks,
    ),
    _in_tokens(
        "limit_tokens",
        "Capacity of a tier in tokens.",
        lambda tier: tier.max_blocks,
    ),
    _both(
        "lookup_tokens",
        "tokens",
        "Tokens looked up in a tier beyond those found in earlier tiers, by result: "
        "loaded from it (hit) or not (miss). Counted once per lookup that led to a "
        "load or to the end of the request.",
        Label("result", ("hit", "miss")),
        lambda tier: (tier.hit_tokens, tier.missed_tokens),
    ),
    _both(
        "moved_bytes",
        "bytes",
        "Bytes of KV blocks stored into a tier and loaded from it.",
        DIRECTION,
        lambda tier: (tier.in_bytes, tier.out_bytes),
    ),
    _both(
        "moved_seconds",
        "seconds",
        "Time spent storing KV blocks into a tier and loading them from it, summed "
        "over threads; waiting for a thread is not included.",
        DIRECTION,
        lambda tier: (tier.in_ns / NANOSECONDS, tier.out_ns / NANOSECONDS),
    ),
    _of_each(
        "evicted_blocks",
        Kind.COUNTER,
        "blocks",
        "KV blocks evicted from a tier to make room for others.",
        lambda tier: tier.evicted_blocks,
    ),
    _both(
        "dropped_blocks",
        "blocks",
        "KV blocks that could not be stored into a tier, by reason: there was no room "
        "for them or for their write in its queue (no_room), or the store failed "
        "(failed).",
        Label("reason", ("no_room", "failed")),
        lambda tier: (tier.dropped_blocks - tier.failed_blocks, tier.failed_blocks),
    ),
    _of_each(
        "dropped_stores",
        Kind.COUNTER,
        "stores",
        "Stores into a tier of which at least one KV block was dropped, because there "
        "was no room for it or for its write in the queue.",
        lambda tier: tier.dropped_stores,
    ),
    _both(
        "failed_moves",
        "moves",
        "Stores into a tier (in) and loads from it (out) of which not all KV blocks "
        "were moved: they failed, or their request was cancelled.",
        DIRECTION,
        lambda tier: (tier.failed_stores, tier.failed_loads),
    ),
    _both(
        "moves_in_flight",
        "moves",
        "Stores into a tier (in) and loads from it (out) that are ordered and not "
        "done yet.",
        DIRECTION,
        lambda tier: (tier.storing, tier.loading),
        kind=Kind.GAUGE,
    ),
    _both(
        "moving_ratio",
        "1",
        "KV blocks of the stores and loads in flight, as a share of the tier's "
        "capacity, from 0 to 1.",
        DIRECTION,
        lambda tier: (
            _share(tier.storing_blocks, tier),
            _share(tier.loading_blocks, tier),
        ),
        kind=Kind.GAUGE,
    ),
)
