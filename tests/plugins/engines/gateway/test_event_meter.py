"""How a stream is measured by its bytes alone."""

from collections.abc import Iterable

import pytest

from hookline_faults.scripted_gateway import DONE, FINISH, ROLE, chunk, data, usage
from hookline_gateway.measuring.event_meter import MOST_OPEN_BYTES, EventMeter


class Clock:
    """A clock that goes on by one with each look."""

    now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def measured(pieces: Iterable[bytes]) -> EventMeter:
    """Returns the meter of a whole stream."""
    meter = EventMeter(Clock(), lambda _: None)
    for piece in pieces:
        meter.see(piece)
    meter.finish()
    return meter


TEXTS = [chunk(text) for text in "abcd"]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (4, [(1, 1), (1, 1), (1, 1)]),
        (8, [(1, 2), (1, 2), (1, 2)]),
        (6, [(1, 2), (1, 1), (1, 2)]),
        (2, [(3, 1)]),
        (0, []),
    ],
)
def test_events_share_the_tokens(tokens: int, expected: list[tuple[int, int]]) -> None:
    """In whole numbers, which add up to what the usage says, the first event's too."""
    meter = measured([ROLE, *TEXTS, FINISH, DONE])

    found = list(meter.intervals(tokens))

    assert found == expected
    assert (meter.first_at, meter.last_at) == (1, 4)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_events_in_any_pieces(size: int, end: bytes) -> None:
    """An end of an event may be in two of them; the first is noticed with its end."""
    whole = b"".join([ROLE, *TEXTS, FINISH, DONE]).replace(b"\n", end)
    first_end = len((ROLE + TEXTS[0]).replace(b"\n", end))
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    firsts, seen = list[int](), 0
    meter = EventMeter(Clock(), firsts.append)

    for piece in pieces:
        meter.see(piece)
        seen += len(piece)
        assert bool(firsts) == (seen >= first_end)
    meter.finish()

    assert list(meter.intervals(4)) == [(1, 1), (1, 1), (1, 1)]
    assert meter.found.finish_reason == "stop"


def test_many_events_are_not_kept() -> None:
    """Only the last ones are read again; all are counted."""
    end = [FINISH, data({"choices": [], "usage": usage(3, 1000)}), DONE]
    meter = measured([*(chunk("x") for _ in range(1000)), b": ping\n\n", *end])

    assert sum(count for _, count in meter.intervals(1000)) == 999
    assert meter.found.output_tokens == 1000
    assert meter.found.finish_reason == "stop"


def test_event_without_an_end_takes_no_memory() -> None:
    """It is not kept, and what follows it is measured."""
    half = b"data: " + b"x" * MOST_OPEN_BYTES
    meter = measured([chunk("a"), half, half, b"\n\n", chunk("b"), FINISH, DONE])

    assert meter.found.finish_reason == "stop"
    assert meter.found.is_complete


def test_half_an_event_is_none() -> None:
    """As it counts for clients; but what it says of the end counts."""
    meter = measured([chunk("a"), chunk("b")[:20]])
    assert (meter.first_at, meter.last_at) == (1, 1)

    meter = measured([chunk("a"), b"data: [DONE]\n"])
    assert meter.found.is_complete
