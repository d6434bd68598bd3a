"""Writes Perfetto's own format: packets with track events, names written once."""

from typing import BinaryIO

from hookline_insight.trace.canvas import NO_FLOWS, NO_NOTES, Flows, Notes, Track
from hookline_metrics.wire_format import double, fixed, integer, message, text

_SEQUENCE = 1
_REALTIME, _BOOTTIME = 1, 6
_FIRST, _LATER = 1, 2
"""Flags of packets: names are forgotten before this one; it needs earlier names."""
_BEGIN, _END, _COUNTER = 1, 2, 4
_EXPLICIT = 3
"""Children of a track are shown in the order of their ranks."""


class PerfettoCanvas:
    """A trace of packets; of it, only fixed names and their numbers are held."""

    def __init__(self, file: BinaryIO, begin: int) -> None:
        """Begins a trace.

        Args:
            file: Where it goes.
            begin: The wall clock at its begin, ns since the epoch.
        """
        self._file = file
        self._tracks = 0
        self._names: dict[str, int] = {}
        self._note_names: dict[str, int] = {}
        self._new: list[bytes] = []
        self._trailer = integer(10, _SEQUENCE) + integer(13, _LATER)
        clocks = (
            message(1, integer(1, clock), integer(2, begin))
            for clock in (_BOOTTIME, _REALTIME)
        )
        self._write(
            message(6, *clocks),
            integer(8, begin),
            integer(10, _SEQUENCE),
            integer(13, _FIRST),
        )

    def engine(self, pid: int, name: str) -> Track:
        self._tracks += 1
        track = Track(self._tracks, self._tracks, name)
        self._describe(
            integer(1, track.number),
            message(3, integer(1, pid), text(6, name)),
            integer(11, _EXPLICIT),
        )
        return track

    def track(self, engine: Track, name: str, parent: Track | None = None) -> Track:
        return self._child(engine, name, engine if parent is None else parent)

    def counter(self, engine: Track, name: str, unit: str) -> Track:
        return self._child(engine, name, engine, message(8, text(6, unit)))

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
        named = (
            text(23, name)
            if is_own_name
            else integer(10, self._number(self._names, 2, name))
        )
        self._event(
            at,
            integer(9, _BEGIN),
            integer(11, track.number),
            named,
            *self._notes(notes),
            *(fixed(47, each) for each in flows.through),
            *(fixed(48, each) for each in flows.ending),
        )

    def leave(self, track: Track, at: int, notes: Notes = NO_NOTES) -> None:
        self._event(
            at, integer(9, _END), integer(11, track.number), *self._notes(notes)
        )

    def count(self, track: Track, at: int, value: int) -> None:
        self._event(
            at, integer(9, _COUNTER), integer(11, track.number), integer(30, value)
        )

    def close(self) -> None:
        """Nothing remains."""

    def _child(self, engine: Track, name: str, parent: Track, *more: bytes) -> Track:
        self._tracks += 1
        self._describe(
            integer(1, self._tracks),
            text(2, name),
            integer(5, parent.number),
            integer(12, self._tracks),
            *more,
        )
        return Track(self._tracks, engine.process, name)

    def _describe(self, *fields: bytes) -> None:
        self._write(message(60, *fields), self._trailer)

    def _event(self, at: int, *fields: bytes) -> None:
        event = message(11, *fields)
        names = (message(12, *self._new),) if self._new else ()
        self._new.clear()
        self._write(integer(8, at), event, *names, self._trailer)

    def _notes(self, notes: Notes) -> list[bytes]:
        return [
            message(
                4, integer(1, self._number(self._note_names, 3, name)), _value(value)
            )
            for name, value in notes.items()
        ]

    def _number(self, names: dict[str, int], field: int, name: str) -> int:
        """Returns the number of a name, which is written with its first use."""
        number = names.get(name)
        if number is None:
            number = names[name] = len(names) + 1
            self._new.append(message(field, integer(1, number), text(2, name)))
        return number

    def _write(self, *fields: bytes) -> None:
        self._file.write(message(1, *fields))


def _value(value: float | str) -> bytes:
    if isinstance(value, str):
        return text(6, value)
    return integer(4, value) if isinstance(value, int) else double(5, value)
