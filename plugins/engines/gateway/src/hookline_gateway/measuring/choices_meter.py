"""Counts the events of a stream of several choices: each has tokens of its own."""

from array import array
from collections.abc import Callable, Sequence

from hookline_gateway.measuring.answer_reading import choices_with_content
from hookline_gateway.measuring.event_meter import (
    EventMeter,
    Interval,
    messages,
    shared,
)

MOST_CHOICES = 128
"""Number of choices whose times are kept apart; further ones have none."""


class ChoicesMeter(EventMeter):
    """Reads each event, to know which choices it is of."""

    def __init__(self, clock: Callable[[], int], first: Callable[[int], None]) -> None:
        """Begins before the first piece, as `EventMeter` does."""
        super().__init__(clock, first)
        self._times_of: dict[int, array[int]] = {}

    def intervals(self, tokens: int) -> Sequence[Interval]:
        """Returns the times between tokens of the same choice.

        Of all the tokens, each choice has as many as its share of the events.
        """
        found: list[Interval] = []
        seen = given = 0
        events = sum(map(len, self._times_of.values()))
        for times in self._times_of.values():
            seen += len(times)
            share = seen * tokens // events - given
            given += share
            found += shared(times, [1] * len(times), share)
        return found

    def _note(self, piece: bytes, at: int, count: int) -> None:
        super()._note(piece, at, count)
        for message in messages(piece):
            for index in choices_with_content(message):
                times = self._times_of.get(index)
                if times is None and len(self._times_of) < MOST_CHOICES:
                    times = self._times_of[index] = array("q")
                if times is not None:
                    times.append(at)
