"""Places monotonic times of the engine and the front end on the wall clock."""

from collections.abc import Iterable

from hookline.clock import Clock
from hookline.events import ClockPair


class WallTime:
    """Converts times in ns; for display only, never for intervals.

    Attributes:
        engine_offset: Wall clock minus the engine's monotonic clock, in ns.
    """

    __slots__ = ("_front_end_offset", "engine_offset")

    def __init__(self, clock: Clock, engine: ClockPair) -> None:
        self._front_end_offset = clock.wall() - clock.now()
        self.engine_offset = engine.wall - engine.monotonic

    def set_engine(self, pair: ClockPair) -> None:
        """Sets the offset from a new reading of the engine's clocks."""
        self.engine_offset = pair.wall - pair.monotonic

    def set_front_end(self, clock: Clock) -> None:
        """Reads the front end's clocks again."""
        self._front_end_offset = clock.wall() - clock.now()

    def of_engine(self, at: int | None) -> int | None:
        """Converts an engine time to wall time; None stays None."""
        return None if at is None else at + self.engine_offset

    def of_engine_spans(
        self, spans: Iterable[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        """Converts each (begin, end) of the engine to wall time."""
        offset = self.engine_offset
        return tuple((begin + offset, end + offset) for begin, end in spans)

    def of_front_end(self, at: int) -> int:
        """Converts a front-end time to wall time."""
        return at + self._front_end_offset

    def on_engine(self, at: int) -> int:
        """Converts a front-end time to the engine's monotonic clock."""
        return self.of_front_end(at) - self.engine_offset
