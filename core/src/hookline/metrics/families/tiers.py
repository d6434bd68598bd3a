"""Metrics of the tiers of KV blocks that a connector keeps; none without tiers."""

from collections.abc import Callable, Iterable

from hookline.clock import NANOSECONDS
from hookline.metrics.metric import Kind, Label, Metric, Point
from hookline.metrics.readings import Reading, StateReading, by_label
from hookline.stats import MOST_TIERS, TierStats

_TIER = Label("tier", cap=MOST_TIERS)


def _of_each(
    name: str, kind: Kind, unit: str, text: str, number: Callable[[TierStats], float]
) -> Metric:
    def points(state: StateReading) -> Iterable[Point]:
        tiers = state.stats.transfers.tiers
        return by_label({tier: number(stats) for tier, stats in tiers.items()})

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=kind,
        unit=unit,
        help=text,
        labels=(_TIER,),
        value=Reading(StateReading, points),
    )


def _in_tokens(name: str, text: str, blocks: Callable[[TierStats], int]) -> Metric:
    """Returns a gauge of a number of blocks, in tokens."""

    def points(state: StateReading) -> Iterable[Point]:
        size, tiers = state.facts.block_size, state.stats.transfers.tiers
        return by_label({tier: blocks(stats) * size for tier, stats in tiers.items()})

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=Kind.GAUGE,
        unit="tokens",
        help=text,
        labels=(_TIER,),
        value=Reading(StateReading, points),
    )


def _both(
    name: str,
    unit: str,
    text: str,
    label: Label,
    numbers: Callable[[TierStats], tuple[float, float]],
) -> Metric:
    """Returns a counter with a series per tier and value of the label."""

    def points(state: StateReading) -> Iterable[Point]:
        for tier, stats in state.stats.transfers.tiers.items():
            for value, number in zip(label.values, numbers(stats), strict=True):
                yield (tier, value), number, 1

    return Metric(
        name=f"hookline_kv_tier_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        labels=(_TIER, label),
        value=Reading(StateReading, points),
    )


TIER_METRICS: tuple[Metric, ...] = (
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
        Label("direction", ("in", "out")),
        lambda tier: (tier.in_bytes, tier.out_bytes),
    ),
    _both(
        "moved_seconds",
        "seconds",
        "Time spent storing KV blocks into a tier and loading them from it, summed "
        "over threads; waiting for a thread is not included.",
        Label("direction", ("in", "out")),
        lambda tier: (tier.in_ns / NANOSECONDS, tier.out_ns / NANOSECONDS),
    ),
    _of_each(
        "evicted_blocks",
        Kind.COUNTER,
        "blocks",
        "KV blocks evicted from a tier to make room for others.",
        lambda tier: tier.evicted_blocks,
    ),
    _of_each(
        "dropped_blocks",
        Kind.COUNTER,
        "blocks",
        "KV blocks that could not be stored into a tier.",
        lambda tier: tier.dropped_blocks,
    ),
)
