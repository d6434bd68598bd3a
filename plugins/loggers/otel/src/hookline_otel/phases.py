"""The phases of a request and when each began and ended."""

from collections.abc import Sequence
from typing import NamedTuple

from hookline.stats.finished_request import RequestTimes
from hookline_metrics.adapters import AdapterWait


class Phase(NamedTuple):
    """A named time range, in nanoseconds since the epoch.

    Attributes:
        name: Name of the phase.
        start: When it began.
        end: When it ended.
        completion_index: Its completion, if the request has several.
        follows: Position of an earlier phase whose result it continues.
    """

    name: str
    start: int
    end: int
    completion_index: int | None = None
    follows: int | None = None


def phases_of(times: RequestTimes, completion_index: int | None = None) -> list[Phase]:
    """Returns the phases that the request reached, cut off at its end.

    A request with a single output token has no decode phase.
    """
    has_decode = times.first_token != times.last_token
    table = (
        ("queue", times.queued, _first(times.scheduled, times.ended)),
        ("prefill", times.scheduled, _first(times.first_token, times.ended)),
        ("decode", times.first_token if has_decode else None, times.last_token),
        *(("remote_kv", start, end) for start, end in times.remote_kv),
        *(("preempted", start, end) for start, end in times.preempted),
    )
    return [
        Phase(name, start, end, completion_index)
        for name, start, end in table
        if start is not None and end is not None
    ]


def adapter_waits(
    waits: Sequence[AdapterWait], clock_offset: int, completion_index: int | None = None
) -> list[Phase]:
    """Returns waits for an adapter; `clock_offset` leads from their clock to ours."""
    return [
        Phase(
            "adapter",
            each.began_at + clock_offset,
            each.ended_at + clock_offset,
            completion_index,
        )
        for each in waits
    ]


def _first(moment: int | None, otherwise: int) -> int:
    return otherwise if moment is None else moment
