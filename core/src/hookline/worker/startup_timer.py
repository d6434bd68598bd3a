"""Measures what an engine's start consists of."""

from collections.abc import Iterator
from contextlib import contextmanager

from hookline.clock import NANOSECONDS, Clock
from hookline.payloads import StartupPhase


class StartupTimer:
    """Notes phases in order of their beginnings; one may contain others.

    All are placed by one reading of the wall clock, so that a correction of it during
    the start does not tear them apart.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = clock.wall() - clock.now()
        self._phases: list[StartupPhase | None] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures what is done inside; nothing is noted of what fails."""
        place = len(self._phases)
        self._phases.append(None)
        started = self._clock.now()
        yield
        seconds = (self._clock.now() - started) / NANOSECONDS
        self._phases[place] = StartupPhase(
            name=name, started_at=self._epoch + started, seconds=seconds
        )

    def phases(self) -> tuple[StartupPhase, ...]:
        """Those that have ended."""
        return tuple(phase for phase in self._phases if phase is not None)
