"""Parts of several front ends are added up; a gauge ends with its front end."""

from dataclasses import fields

import pytest

from hookline.front_end_parts import (
    FrontEndPart,
    PlacementStats,
    SleepOperation,
    TransportStats,
)
from hookline_metrics.front_end_parts import (
    PARTS,
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
from hookline_observer.merged_parts import MergedParts
from hookline_observer.messages import changed, parts_of
from hookline_processes.usage import RoleUsage


def health(stalled: float | None, unheard: int, age: float) -> EngineHealth:
    reason = "" if stalled is None else "it sends nothing"
    return EngineHealth(
        engine_index=0,
        stalled_seconds=stalled,
        reason=reason,
        unheard=unheard,
        oldest_unheard_seconds=age,
    )


def links(
    index: int, host: str, joined: int, rtt: float | None, refused: int
) -> LinkStats:
    link = EngineLink(
        engine_index=index,
        host=host,
        is_up=rtt is not None,
        joined=joined,
        round_trip_seconds=rtt,
    )
    return LinkStats(engines=(link,), refused=refused)


CASES: list[tuple[FrontEndPart, FrontEndPart, FrontEndPart, FrontEndPart]] = [
    (
        LogStats(unread=1, repeated=2),
        LogStats(unread=3, repeated=4),
        LogStats(unread=4, repeated=6),
        LogStats(unread=4, repeated=6),
    ),
    (
        ConnectionStats(open=1, maximum=9, accept_errors=1, closed=(("a", 1),)),
        ConnectionStats(open=2, maximum=9, closed=(("b", 5), ("a", 2))),
        ConnectionStats(
            open=3, maximum=18, accept_errors=1, closed=(("a", 3), ("b", 5))
        ),
        ConnectionStats(
            open=2, maximum=9, accept_errors=1, closed=(("b", 5), ("a", 3))
        ),
    ),
    (
        TextStats(queues=(TextQueueStats(queue="text", waiting=2, jobs=3),)),
        TextStats(
            queues=(
                TextQueueStats(queue="text", waiting=1, jobs=4, seconds=0.5),
                TextQueueStats(queue="chat", exceeded=1, crashed=2),
            )
        ),
        TextStats(
            queues=(
                TextQueueStats(queue="text", waiting=3, jobs=7, seconds=0.5),
                TextQueueStats(queue="chat", exceeded=1, crashed=2),
            )
        ),
        TextStats(
            queues=(
                TextQueueStats(queue="text", waiting=1, jobs=7, seconds=0.5),
                TextQueueStats(queue="chat", exceeded=1, crashed=2),
            )
        ),
    ),
    (
        ParserFailures(
            failures=(("tool", "hermes", 1),), repairs=(("tool", "hermes", "cut", 1),)
        ),
        ParserFailures(
            failures=(("tool", "hermes", 2),), repairs=(("tool", "hermes", "cut", 4),)
        ),
        ParserFailures(
            failures=(("tool", "hermes", 3),), repairs=(("tool", "hermes", "cut", 5),)
        ),
        ParserFailures(
            failures=(("tool", "hermes", 3),), repairs=(("tool", "hermes", "cut", 5),)
        ),
    ),
    (
        StreamStats(keep_alives=1),
        StreamStats(keep_alives=2),
        StreamStats(keep_alives=3),
        StreamStats(keep_alives=3),
    ),
    (
        UnknownFieldStats(fields=(("user", 1),)),
        UnknownFieldStats(fields=(("other", 2),)),
        UnknownFieldStats(fields=(("user", 1), ("other", 2))),
        UnknownFieldStats(fields=(("other", 2), ("user", 1))),
    ),
    (
        IgnoredStats(elements=(("chat", "call.arguments", 1),)),
        IgnoredStats(elements=(("responses", "tool.other", 2),)),
        IgnoredStats(
            elements=(("chat", "call.arguments", 1), ("responses", "tool.other", 2))
        ),
        IgnoredStats(
            elements=(("responses", "tool.other", 2), ("chat", "call.arguments", 1))
        ),
    ),
    (
        ResponseStoreStats(entries=1, bytes=10, evictions=(("age", 1),)),
        ResponseStoreStats(entries=2, bytes=20, evictions=(("age", 2),)),
        ResponseStoreStats(entries=3, bytes=30, evictions=(("age", 3),)),
        ResponseStoreStats(entries=2, bytes=20, evictions=(("age", 3),)),
    ),
    (
        ApiKeyStats(stale_seconds=5.0),
        ApiKeyStats(stale_seconds=90.0),
        ApiKeyStats(stale_seconds=90.0),
        ApiKeyStats(stale_seconds=90.0),
    ),
    (
        EventLoopStats(lag_seconds=0.5, stalls=1),
        EventLoopStats(lag_seconds=0.25, stalls=2),
        EventLoopStats(lag_seconds=0.5, stalls=3),
        EventLoopStats(lag_seconds=0.25, stalls=3),
    ),
    (
        MemoryStats(headroom_bytes=3, used_bytes=5, kills=1),
        MemoryStats(headroom_bytes=2, kills=2),
        MemoryStats(headroom_bytes=2, used_bytes=5, kills=2),
        MemoryStats(headroom_bytes=2, kills=2),
    ),
    (
        ProcessStats(roles=(RoleUsage(role="text", cpu_seconds=1.5),)),
        ProcessStats(),
        ProcessStats(roles=(RoleUsage(role="text", cpu_seconds=1.5),)),
        ProcessStats(),
    ),
    (
        TransportStats(dropped=1),
        TransportStats(dropped=2),
        TransportStats(dropped=3),
        TransportStats(dropped=3),
    ),
    (
        links(1, "b", 1, 0.5, 1),
        links(1, "b", 2, None, 2),
        links(1, "b", 3, 0.5, 3),
        links(1, "b", 3, None, 3),
    ),
    (
        PlacementStats(requests=(("0", "load", 1),)),
        PlacementStats(requests=(("0", "load", 2), ("1", "turn", 1))),
        PlacementStats(requests=(("0", "load", 3), ("1", "turn", 1))),
        PlacementStats(requests=(("0", "load", 3), ("1", "turn", 1))),
    ),
    (
        ScalingStats(serving=1, wanted=2, minimum=1, maximum=4, added=1),
        ScalingStats(leaving=1, decisions=(("demand", 2),), removed=3),
        ScalingStats(
            serving=1,
            leaving=1,
            wanted=2,
            minimum=1,
            maximum=4,
            decisions=(("demand", 2),),
            added=1,
            removed=3,
        ),
        ScalingStats(leaving=1, decisions=(("demand", 2),), added=1, removed=3),
    ),
    (
        health(2.0, 1, 3.0),
        health(None, 2, 5.0),
        health(2.0, 3, 5.0),
        health(None, 2, 5.0),
    ),
    (
        SleepOperation(operation="sleep", in_flight=1),
        SleepOperation(operation="sleep", in_flight=1, seconds=2.5),
        SleepOperation(operation="sleep", in_flight=2, seconds=2.5),
        SleepOperation(operation="sleep", in_flight=1),
    ),
]
"""One front end's, another's, their sum, and what is left when the first has ended."""


@pytest.mark.parametrize(
    ("one", "other", "total", "left"), CASES, ids=lambda each: type(each).__name__
)
def test_parts_are_added_up(
    one: FrontEndPart, other: FrontEndPart, total: FrontEndPart, left: FrontEndPart
) -> None:
    """
    Numbers of two front ends are added; when one ends, its totals alone remain.
    """
    merged = MergedParts()

    assert merged.merge(0, [one]) == (one,)
    assert merged.merge(1, [other]) == (total,)
    assert merged.leave(0) == (left,)


def test_every_part_can_be_added_up() -> None:
    """
    The cases above, and the parts that are told once, are all that there are.
    """
    known = {type(one) for one, *_ in CASES}

    assert known | {ServerAddress, ObserverStats} == set(PARTS.values())


def test_servers_of_one_address_tell_it_once() -> None:
    """
    Where servers listen is told once for each address.
    """
    merged = MergedParts()
    here, there = ServerAddress(host="a", port=1), ServerAddress(host="a", port=2)

    assert merged.merge(0, [here]) == (here,)
    assert merged.merge(1, [here]) == ()
    assert merged.merge(2, [there]) == (there,)


def test_a_later_part_replaces_an_earlier_one() -> None:
    """
    A front end's part counts once, with its latest state.
    """
    merged = MergedParts()
    merged.merge(0, [TransportStats(dropped=1)])
    merged.merge(1, [TransportStats(dropped=5)])

    assert merged.merge(0, [TransportStats(dropped=2)]) == (TransportStats(dropped=7),)


@pytest.mark.parametrize("part", [each for case in CASES for each in case[:2]])
def test_parts_survive_the_wire(part: FrontEndPart) -> None:
    """
    A part arrives as it was sent.
    """
    assert parts_of(changed((part,))) == (part,)


NOT_SUMS = {
    *("headroom_bytes", "used_bytes", "kills"),  # all front ends see the same
    *("lag_seconds", "minimum", "maximum", "seconds", "stalled_seconds"),
    "stale_seconds",
}
"""Numbers of a front end that are not added up; those of a text queue are seconds."""


ADDED = sorted(
    {*PARTS.values()} - {ObserverStats, ServerAddress}, key=lambda k: k.__name__
)
"""The parts that each front end has."""


@pytest.mark.parametrize("kind", ADDED, ids=lambda kind: kind.__name__)
def test_every_number_of_a_part_is_added(kind: type[FrontEndPart]) -> None:
    """A field that a part gets some day is added up like the others."""
    numbers = [
        field.name
        for field in fields(kind)
        if str(field.type).removesuffix(" | None") in ("int", "float")
        or field.type in (int, float)
    ]
    values = {field.name: () for field in fields(kind)} | dict.fromkeys(numbers, 2)
    indices = {"engine_index": 0} if "engine_index" in values else {}
    part = kind(**values | indices)
    parts = MergedParts()
    parts.merge(0, (part,))

    (total,) = parts.merge(1, (part,))

    for name in set(numbers) - NOT_SUMS - {"engine_index", "oldest_unheard_seconds"}:
        assert getattr(total, name) == 4, name


def test_every_number_of_a_text_queue_is_added() -> None:
    """So are those of each kind of text work."""
    names = {each.name for each in fields(TextQueueStats)} - {"queue"}
    one = TextQueueStats(queue="text", **dict.fromkeys(names, 2))
    parts = MergedParts()
    parts.merge(0, (TextStats(queues=(one,)),))

    (total,) = parts.merge(1, (TextStats(queues=(one,)),))

    doubled = TextQueueStats(queue="text", **dict.fromkeys(names, 4))
    assert total == TextStats(queues=(doubled,))
