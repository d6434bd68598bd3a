"""Which phases a request went through, and when: one row of a table for each."""

from typing import NamedTuple

from hookline.stats import RequestTimes


class Phase(NamedTuple):
    """A part of something's life, in nanoseconds since the epoch."""

    name: str
    start: int
    end: int


def phases_of(times: RequestTimes) -> list[Phase]:
    """The phases that were reached; one that the request's end cut short ends there.

    One token is no decoding, so there is no such phase for it.
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
        Phase(name, start, end)
        for name, start, end in table
        if start is not None and end is not None
    ]


def _first(moment: int | None, otherwise: int) -> int:
    return otherwise if moment is None else moment
