"""What a trace is drawn on; each format is one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Notes = Mapping[str, int | float | str]
"""What is told of a slice, beside its name."""
NO_NOTES: Notes = {}


class Track(NamedTuple):
    """A row of a trace.

    Attributes:
        number: Its own, from 1.
        process: That of its engine.
        name: As it is shown; of a counter, also its events' name.
    """

    number: int
    process: int
    name: str


class Flows(NamedTuple):
    """Arrows at a slice, by their ids.

    Attributes:
        through: Those that begin here or go on.
        ending: Those that end here.
    """

    through: Sequence[int] = ()
    ending: Sequence[int] = ()


NO_FLOWS = Flows()


class Canvas(Protocol):
    """Writes a trace; the events of one track come in the order of time, in ns.

    Slices of a track are nested in each other or disjoint.
    """

    def engine(self, pid: int, name: str) -> Track:
        """Adds the rows of an engine."""

    def track(self, engine: Track, name: str, parent: Track | None = None) -> Track:
        """Adds a row for slices."""

    def counter(self, engine: Track, name: str, unit: str) -> Track:
        """Adds a row for a number."""

    def enter(
        self,
        track: Track,
        at: int,
        name: str,
        notes: Notes = NO_NOTES,
        flows: Flows = NO_FLOWS,
        *,
        is_own_name: bool = False,
    ) -> None:
        """Begins a slice; with `is_own_name`, no others have its name."""

    def leave(self, track: Track, at: int, notes: Notes = NO_NOTES) -> None:
        """Ends the slice that has begun last."""

    def count(self, track: Track, at: int, value: int) -> None:
        """Tells what a number is from now on."""

    def close(self) -> None:
        """Writes what remains."""
