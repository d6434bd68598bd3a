"""The rows that measure an engine beside neighbours, and within a quota."""

from collections.abc import Iterator, Mapping

from compare_work import Goal, Kind, Row
from contention import Neighbours

OF_QUIET = {Neighbours.ONE: 0.6, Neighbours.TWO: 0.45, Neighbours.BURSTS: 0.5}
"""Least throughput beside neighbours, in terms of the same engine's quiet one."""
OF_SHARE = 0.9
"""Least throughput within a quota, in terms of quiet × the quota's share."""
OF_VLLM = 1.3
MOST_P99 = 3.0
"""Largest 99th percentile of the time between tokens, in terms of the quiet one."""
MOST_STALL = 5.0
"""Longest step within a quota of 150 %, in terms of the median one."""
STALL = "longest ÷ median step"


def _goals(each: Neighbours) -> Iterator[Goal]:
    name = each.value
    peer_ratio = None if each is Neighbours.QUIET else OF_VLLM
    yield Goal(f"{name}: output tok/s", ratio=peer_ratio)
    if each in OF_QUIET:
        yield Goal(f"{name}: of quiet", bound=OF_QUIET[each])
        yield Goal(f"{name}: p99 ÷ quiet", is_higher_better=False, bound=MOST_P99)
    if each.quota is not None:
        yield Goal(f"{name}: of share", bound=OF_SHARE)
    yield Goal(f"{name}: p99 ITL ms", is_higher_better=False)
    most = MOST_STALL if each is Neighbours.QUOTA_150 else None
    yield Goal(f"{name}: {STALL}", is_higher_better=False, bound=most)


def _row(requests: int) -> Row:
    return Row(
        kind=Kind.OFFLINE,
        model="llama-90m",
        requests=requests,
        input_tokens=32,
        output_tokens=64,
        neighbours=tuple(Neighbours),
        goals=tuple(goal for each in Neighbours for goal in _goals(each)),
    )


CONTENDED_ROWS: Mapping[str, Row] = {
    f"contended-90m-{requests}": _row(requests) for requests in (1, 8, 64)
}
