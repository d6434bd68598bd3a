"""Metrics of where adapters are: in slots, in memory or on disk."""

from collections.abc import Callable, Iterable

from hookline_metrics.adapters import (
    AdapterLevel,
    AdapterLoad,
    LoraNews,
    LoraStats,
    adapters_of,
)
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.adapter import ADAPTER, label_of
from hookline_metrics.metric import Feature, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading, by_label, one

_LOADED = (AdapterLevel.SLOT, AdapterLevel.MEMORY)


def of_adapters(
    points: Callable[[LoraStats], Iterable[Point]],
) -> Reading[StateReading]:
    """Reads the adapters of an engine's state."""
    return Reading(StateReading, lambda state: points(adapters_of(state.stats)))


def _loaded(news: LoraNews) -> Iterable[Point]:
    return [
        (
            (
                label_of(name),
                each.level.value,
                "true" if each.is_pinned else "false",
                str(each.rank),
            ),
            1,
            1,
        )
        for name, each in (news.residency or {}).items()
        if each.level in _LOADED
    ]


def _levels(stats: LoraStats) -> Iterable[Point]:
    return by_label(
        {
            AdapterLevel.SLOT.value: stats.slots_used,
            AdapterLevel.MEMORY.value: max(0, stats.in_memory - stats.slots_used),
            AdapterLevel.DISK.value: max(0, stats.known - stats.in_memory),
        }
    )


ADAPTER_RESIDENCY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_adapter_loaded",
        kind=Kind.GAUGE,
        unit="1",
        help="1 for each adapter in a slot of steps (gpu) or in main memory alone "
        "(cpu); those beyond the limit are other, and added up.",
        labels=(
            ADAPTER,
            Label("level", tuple(level.value for level in _LOADED)),
            Label("pinned", ("false", "true")),
            Label("rank", cap=64),
        ),
        feature=Feature.ADAPTERS,
        is_fleeting=True,
        value=Reading(LoraNews, _loaded),
    ),
    Metric(
        name="hookline_adapters",
        kind=Kind.GAUGE,
        unit="adapters",
        help="Adapters by where their weights are: in slots of steps (gpu), in main "
        "memory alone (cpu), or on disk.",
        labels=(Label("level", tuple(level.value for level in AdapterLevel)),),
        feature=Feature.ADAPTERS,
        value=of_adapters(_levels),
    ),
    Metric(
        name="hookline_adapter_slots",
        kind=Kind.GAUGE,
        unit="slots",
        help="Number of adapters with which a step can compute.",
        feature=Feature.ADAPTERS,
        value=of_adapters(lambda stats: one(stats.slots)),
    ),
    Metric(
        name="hookline_adapter_memory_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Main memory that weights of adapters take.",
        feature=Feature.ADAPTERS,
        value=of_adapters(lambda stats: one(stats.memory_bytes)),
    ),
    Metric(
        name="hookline_adapter_load_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time to read an adapter into main memory.",
        buckets=BucketFamily.REQUEST_PHASE,
        feature=Feature.ADAPTERS,
        value=Reading(
            AdapterLoad, lambda load: one(None if load.error else load.seconds)
        ),
    ),
    Metric(
        name="hookline_adapter_loads",
        kind=Kind.COUNTER,
        unit="loads",
        help="Reads of adapters into main memory, by outcome.",
        labels=(Label("outcome", ("failed", "loaded")),),
        feature=Feature.ADAPTERS,
        value=of_adapters(
            lambda stats: by_label(
                {"failed": stats.totals.load_failures, "loaded": stats.totals.loads}
            )
        ),
    ),
    Metric(
        name="hookline_adapter_evictions",
        kind=Kind.COUNTER,
        unit="evictions",
        help="Adapters that left a slot (gpu) or main memory (cpu) for another.",
        labels=(Label("level", tuple(level.value for level in _LOADED)),),
        feature=Feature.ADAPTERS,
        value=of_adapters(
            lambda stats: by_label(
                {
                    AdapterLevel.SLOT.value: stats.totals.slot_evictions,
                    AdapterLevel.MEMORY.value: stats.totals.memory_evictions,
                }
            )
        ),
    ),
)
