"""Metrics of the tiers of KV blocks that a connector keeps; none without tiers."""

from collections.abc import Callable, Iterable

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


def _both(
    name: str,
    unit: str,
    text: str,
    label: Label,
    numbers: Callable[[TierStats], tuple[float, float]],
) -> Metric:
    """Of the label's two values."""

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
        "KV blocks in a tier of the connector.",
        lambda tier: tier.blocks,
    ),
    _of_each(
        "limit_blocks",
        Kind.GAUGE,
        "blocks",
        "KV blocks that a tier has room for.",
        lambda tier: tier.max_blocks,
    ),
    _of_each(
        "used_bytes",
        Kind.GAUGE,
        "bytes",
        "Bytes of the KV blocks in a tier of the connector.",
        lambda tier: tier.bytes,
    ),
    _of_each(
        "limit_bytes",
        Kind.GAUGE,
        "bytes",
        "Bytes that a tier may have.",
        lambda tier: tier.max_bytes,
    ),
    _both(
        "lookup_tokens",
        "tokens",
        "Tokens that a tier was asked for, behind what was found before it: those that "
        "were loaded from it, and the others. Counted once a look-up that was followed "
        "by a load, or by the end of the request.",
        Label("result", ("hit", "miss")),
        lambda tier: (tier.hit_tokens, tier.missed_tokens),
    ),
    _both(
        "moved_bytes",
        "bytes",
        "Bytes of KV blocks that came into a tier, and that were loaded from it.",
        Label("direction", ("in", "out")),
        lambda tier: (tier.in_bytes, tier.out_bytes),
    ),
    _of_each(
        "evicted_blocks",
        Kind.COUNTER,
        "blocks",
        "KV blocks of a tier that made room for others.",
        lambda tier: tier.evicted_blocks,
    ),
    _of_each(
        "dropped_blocks",
        Kind.COUNTER,
        "blocks",
        "KV blocks that should have come into a tier, and could not.",
        lambda tier: tier.dropped_blocks,
    ),
)
