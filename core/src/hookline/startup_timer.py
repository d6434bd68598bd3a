"""Measures the phases of an engine's start."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from hookline.clock import NANOSECONDS, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupPhase:
    """A phase of an engine's startup.

    Attributes:
        name: Name of the phase, such as `load weights`.
        started_at: Start, in nanoseconds since the epoch.
        seconds: Duration.
    """

    name: str
    started_at: int
    seconds: float


class StartupTimer:
    """Records phases in the order of their starts; a phase may contain others.

    The wall clock is read once, so that adjusting it during the start does not shift
    the phases against each other.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = clock.wall() - clock.now()
        self._phases: list[StartupPhase | None] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a block of code; one that raises is not recorded."""
        place = len(self._phases)
        self._phases.append(None)
        started = self._clock.now()
        yield
        seconds = (self._clock.now() - started) / NANOSECONDS
        self._phases[place] = StartupPhase(
            name=name, started_at=self._epoch + started, seconds=seconds
        )

    def include(self, phases: Iterable[StartupPhase]) -> None:
        """Adds phases of another process on this machine, after those that began."""
        self._phases.extend(phases)

    def renewed(self) -> Self:
        """Returns a timer without phases, for a start after a sleep."""
        return type(self)(self._clock)

    def phases(self) -> tuple[StartupPhase, ...]:
        """Returns the phases that have ended."""
        return tuple(phase for phase in self._phases if phase is not None)
