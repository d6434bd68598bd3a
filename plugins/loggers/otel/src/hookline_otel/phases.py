"""Which phases a request went through, and when: one row of a table for each."""

from dataclasses import dataclass

from hookline.stats import RequestTimes


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a request's life, in nanoseconds since the epoch."""

    name: str
    start: int
    end: int


def phases_of(times: RequestTimes) -> tuple[Phase, ...]:
    """The phases that were reached; one that the request's end cut short ends there.

    One token is no decoding, so there is no such phase for it.
    """
    has_decode = times.first_token != times.last_token
    table = (
        ("queue", times.queued, _first(times.scheduled, times.ended)),
        ("prefill", times.scheduled, _first(times.first_token, times.ended)),
        ("decode", times.first_token if has_decode else None, times.last_token),
        *(("preempted", start, end) for start, end in times.preempted),
    )
    return tuple(
        Phase(name, start, end)
        for name, start, end in table
        if start is not None and end is not None
    )


def _first(*moments: int | None) -> int | None:
    return next((moment for moment in moments if moment is not None), None)
