"""Places monotonic times of two processes on the wall clock."""

from collections.abc import Iterable

from hookline.clock import Clock
from hookline.events import ClockPair


class WallTime:
    """For drawing only: differences are taken on the clock that made the times.

    Attributes:
        engine_offset: Wall clock − the engine's monotonic clock, in ns.
    """

    __slots__ = ("_here", "engine_offset")

    def __init__(self, clock: Clock, engine: ClockPair) -> None:
        self._here = clock.wall() - clock.now()
        self.engine_offset = engine.wall - engine.monotonic

    def set_engine(self, pair: ClockPair) -> None:
        """The engine has read its two clocks anew."""
        self.engine_offset = pair.wall - pair.monotonic

    def set_front_end(self, clock: Clock) -> None:
        self._here = clock.wall() - clock.now()

    def of_engine(self, at: int | None) -> int | None:
        return None if at is None else at + self.engine_offset

    def of_engine_spans(
        self, spans: Iterable[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        """(begin, end) of each."""
        offset = self.engine_offset
        return tuple((begin + offset, end + offset) for begin, end in spans)

    def of_front_end(self, at: int) -> int:
        return at + self._here
