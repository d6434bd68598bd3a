"""Adds up the parts of several front ends."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from typing import Any, TypeVar, cast

from hookline.front_end_parts import (
    FrontEndPart,
    PlacementStats,
    SleepOperation,
    TransportStats,
)
from hookline_metrics.front_end_parts import (
    ApiKeyStats,
    ConnectionStats,
    EngineHealth,
    EngineLink,
    EventLoopStats,
    IgnoredStats,
    LinkStats,
    LogStats,
    MemoryStats,
    ObserverStats,
    ParserFailures,
    ProcessStats,
    ResponseStoreStats,
    ScalingStats,
    ServerAddress,
    StreamStats,
    TextQueueStats,
    TextStats,
    UnknownFieldStats,
)

P = TypeVar("P")
F = TypeVar("F", bound=FrontEndPart | TextQueueStats)
Key = tuple[type, object]
"""Which part: its class, and the engine or the operation if there are several."""

Counted = tuple[tuple[object, ...], ...]
"""Names, and a number at the end of each."""


class MergedParts:
    """The latest parts of each front end, and their sums."""

    def __init__(self) -> None:
        self._parts: dict[Key, dict[int, FrontEndPart]] = {}
        self._left: dict[Key, FrontEndPart] = {}
        self._addresses: set[ServerAddress] = set()

    def merge(
        self, index: int, parts: Sequence[FrontEndPart]
    ) -> tuple[FrontEndPart, ...]:
        """Takes changed parts of front end `index`; returns the changed sums."""
        found: list[FrontEndPart] = []
        for part in parts:
            if isinstance(part, ServerAddress):
                if part not in self._addresses:
                    self._addresses.add(part)
                    found.append(part)
                continue
            key = part_key(part)
            self._parts.setdefault(key, {})[index] = part
            found.append(self._sum(key, part))
        return tuple(found)

    def leave(self, index: int) -> tuple[FrontEndPart, ...]:
        """Forgets front end `index`, but for its totals; returns the changed sums."""
        found = []
        for key, parts in self._parts.items():
            if (part := parts.pop(index, None)) is None:
                continue
            rest = _at_rest(part)
            if (left := self._left.get(key)) is not None:
                rest = _added(left, rest)
            self._left[key] = rest
            found.append(self._sum(key, rest))
        return tuple(found)

    @property
    def left(self) -> tuple[FrontEndPart, ...]:
        """The totals of front ends that have ended."""
        return tuple(self._left.values())

    def go_on(self, left: Iterable[FrontEndPart]) -> None:
        """Adds the totals of front ends that another process has seen end."""
        self._left.update((part_key(part), part) for part in left)

    def _sum(self, key: Key, latest: FrontEndPart) -> FrontEndPart:
        parts = list(self._parts[key].values())
        if (left := self._left.get(key)) is not None:
            parts.append(left)
        total = reduce(_added, parts)
        if isinstance(total, SleepOperation) and isinstance(latest, SleepOperation):
            return replace(total, seconds=latest.seconds)
        return total


def part_key(part: FrontEndPart) -> Key:
    """Returns what tells a part from all others of a front end."""
    if isinstance(part, EngineHealth):
        return EngineHealth, part.engine_index
    if isinstance(part, SleepOperation):
        return SleepOperation, part.operation
    if isinstance(part, ProcessStats):
        return ProcessStats, part.are_elsewhere
    return type(part), None


def _at_rest(part: FrontEndPart) -> FrontEndPart:
    """Returns what remains of a part whose front end has ended: its totals."""
    rest = _AT_REST.get(type(part))
    return part if rest is None else rest(part)


def _text_at_rest(part: TextStats) -> TextStats:
    return TextStats(queues=tuple(replace(each, waiting=0) for each in part.queues))


def _healthy(part: EngineHealth) -> EngineHealth:
    return EngineHealth(
        engine_index=part.engine_index,
        stalled_seconds=None,
        reason="",
        unheard=0,
        oldest_unheard_seconds=0.0,
    )


def _links_at_rest(part: LinkStats) -> LinkStats:
    engines = [
        replace(each, is_up=False, round_trip_seconds=None) for each in part.engines
    ]
    return replace(part, engines=tuple(engines))


_AT_REST: Mapping[type, Callable[..., FrontEndPart]] = {
    ConnectionStats: lambda part: replace(part, open=0, maximum=0),
    TextStats: _text_at_rest,
    ResponseStoreStats: lambda part: replace(part, entries=0, bytes=0),
    ApiKeyStats: lambda _: ApiKeyStats(),
    EventLoopStats: lambda part: replace(part, lag_seconds=0.0),
    MemoryStats: lambda part: replace(part, headroom_bytes=None, used_bytes=None),
    ProcessStats: lambda part: replace(part, roles=()),
    LinkStats: _links_at_rest,
    EngineHealth: _healthy,
    SleepOperation: lambda part: replace(part, in_flight=0, seconds=None),
    ScalingStats: lambda part: replace(
        part,
        serving=0,
        starting=0,
        leaving=0,
        wanted=0,
        minimum=None,
        maximum=None,
    ),
}


def _added(one: FrontEndPart, other: FrontEndPart) -> FrontEndPart:
    """Adds two parts of the same kind."""
    return _ADD[type(one)](one, other)


def _sums(one: F, other: F, **own: object) -> F:
    """Adds all numbers and all counts of two parts; the rest is as in the first.

    Args:
        one: A part.
        other: Another one of the same kind.
        **own: Fields that are not sums.
    """
    sums: dict[str, Any] = {}
    for name in (each.name for each in fields(one) if each.name not in own):
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, tuple):
            sums[name] = _counts(mine, theirs)
        elif isinstance(mine, int | float):
            sums[name] = mine + theirs
    return cast("F", replace(cast("Any", one), **sums, **own))


def _texts(one: TextStats, other: TextStats) -> TextStats:
    queues = {each.queue: each for each in one.queues}
    for each in other.queues:
        known = queues.get(each.queue, TextQueueStats(queue=each.queue))
        queues[each.queue] = _sums(known, each)
    return TextStats(queues=tuple(queues.values()))


def _loops(one: EventLoopStats, other: EventLoopStats) -> EventLoopStats:
    lag = max(one.lag_seconds, other.lag_seconds)
    return _sums(one, other, lag_seconds=lag)


def _memory(one: MemoryStats, other: MemoryStats) -> MemoryStats:
    """Front ends of one machine see the same; of several, the least that is left."""
    headroom = [one.headroom_bytes, other.headroom_bytes]
    used = [one.used_bytes, other.used_bytes]
    return MemoryStats(
        headroom_bytes=min((n for n in headroom if n is not None), default=None),
        used_bytes=max((n for n in used if n is not None), default=None),
        kills=max(one.kills, other.kills),
    )


def _staleness(part: ApiKeyStats) -> float:
    return part.stale_seconds


def _links(one: LinkStats, other: LinkStats) -> LinkStats:
    """The first has the latest state of each connection."""
    engines = {each.engine_index: each for each in one.engines}
    for each in other.engines:
        known = engines.get(each.engine_index, EngineLink(engine_index=0))
        engines[each.engine_index] = replace(
            each,
            host=known.host or each.host,
            former_hosts=known.former_hosts or each.former_hosts,
            is_up=known.is_up or each.is_up,
            joined=known.joined + each.joined,
            lost=known.lost + each.lost,
            round_trip_seconds=known.round_trip_seconds or each.round_trip_seconds,
            processes=known.processes or each.processes,
        )
    return LinkStats(
        engines=tuple(engines.values()), refused=one.refused + other.refused
    )


def _health(one: EngineHealth, other: EngineHealth) -> EngineHealth:
    """An engine works if all front ends find it working."""
    worse = max(
        one, other, key=lambda each: (each.stalled_seconds is not None, each.unheard)
    )
    return replace(
        worse,
        unheard=one.unheard + other.unheard,
        oldest_unheard_seconds=max(
            one.oldest_unheard_seconds, other.oldest_unheard_seconds
        ),
    )


def _scaling(one: ScalingStats, other: ScalingStats) -> ScalingStats:
    """Only one front end counts engines, after another that has ended."""
    return _sums(
        one,
        other,
        minimum=one.minimum if other.minimum is None else other.minimum,
        maximum=one.maximum if other.maximum is None else other.maximum,
    )


def _sleep(one: SleepOperation, other: SleepOperation) -> SleepOperation:
    return replace(one, in_flight=one.in_flight + other.in_flight)


_ADD: Mapping[type, Callable[..., FrontEndPart]] = {
    LogStats: _sums,
    ConnectionStats: _sums,
    TextStats: _texts,
    ParserFailures: _sums,
    StreamStats: _sums,
    UnknownFieldStats: _sums,
    IgnoredStats: _sums,
    ResponseStoreStats: _sums,
    ApiKeyStats: lambda one, other: max(one, other, key=_staleness),
    EventLoopStats: _loops,
    MemoryStats: _memory,
    # The front end that owns all processes tells of them.
    ProcessStats: lambda one, other: one if one.roles else other,
    TransportStats: _sums,
    LinkStats: _links,
    PlacementStats: _sums,
    EngineHealth: _health,
    SleepOperation: _sleep,
    ScalingStats: _scaling,
    ObserverStats: lambda one, _: one,
}


def _counts(one: Iterable[P], other: Iterable[P]) -> tuple[P, ...]:
    """Adds the last numbers of tuples whose other members are equal."""
    sums: Counter[tuple[object, ...]] = Counter()
    for entry in cast("Iterable[tuple[object, ...]]", (*one, *other)):
        sums[entry[:-1]] += cast("int", entry[-1])
    return cast("tuple[P, ...]", tuple((*key, sums[key]) for key in sums))
