"""Writes Perfetto's own format: packets with track events, names written once."""

from typing import BinaryIO

from hookline_insight.trace.canvas import NO_FLOWS, NO_NOTES, Flows, Notes, Track
from hookline_insight.trace.protobuf import fixed, nested, real, text, whole

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
        self._trailer = whole(10, _SEQUENCE) + whole(13, _LATER)
        clocks = (
            nested(1, whole(1, clock), whole(2, begin))
            for clock in (_BOOTTIME, _REALTIME)
        )
        self._write(
            nested(6, *clocks),
            whole(8, begin),
            whole(10, _SEQUENCE),
            whole(13, _FIRST),
        )

    def engine(self, pid: int, name: str) -> Track:
        self._tracks += 1
        track = Track(self._tracks, self._tracks, name)
        self._describe(
            whole(1, track.number),
            nested(3, whole(1, pid), text(6, name)),
            whole(11, _EXPLICIT),
        )
        return track

    def track(self, engine: Track, name: str, parent: Track | None = None) -> Track:
        return self._child(engine, name, engine if parent is None else parent)

    def counter(self, engine: Track, name: str, unit: str) -> Track:
        return self._child(engine, name, engine, nested(8, text(6, unit)))

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
            else whole(10, self._number(self._names, 2, name))
        )
        self._event(
            at,
            whole(9, _BEGIN),
            whole(11, track.number),
            named,
            *self._notes(notes),
            *(fixed(47, each) for each in flows.through),
            *(fixed(48, each) for each in flows.ending),
        )

    def leave(self, track: Track, at: int, notes: Notes = NO_NOTES) -> None:
        self._event(at, whole(9, _END), whole(11, track.number), *self._notes(notes))

    def count(self, track: Track, at: int, value: int) -> None:
        self._event(at, whole(9, _COUNTER), whole(11, track.number), whole(30, value))

    def close(self) -> None:
        """Nothing remains."""

    def _child(self, engine: Track, name: str, parent: Track, *more: bytes) -> Track:
        self._tracks += 1
        self._describe(
            whole(1, self._tracks),
            text(2, name),
            whole(5, parent.number),
            whole(12, self._tracks),
            *more,
        )
        return Track(self._tracks, engine.process, name)

    def _describe(self, *fields: bytes) -> None:
        self._write(nested(60, *fields), self._trailer)

    def _event(self, at: int, *fields: bytes) -> None:
        event = nested(11, *fields)
        names = (nested(12, *self._new),) if self._new else ()
        self._new.clear()
        self._write(whole(8, at), event, *names, self._trailer)

    def _notes(self, notes: Notes) -> list[bytes]:
        return [
            nested(4, whole(1, self._number(self._note_names, 3, name)), _value(value))
            for name, value in notes.items()
        ]

    def _number(self, names: dict[str, int], field: int, name: str) -> int:
        """Returns the number of a name, which is written with its first use."""
        number = names.get(name)
        if number is None:
            number = names[name] = len(names) + 1
            self._new.append(nested(field, whole(1, number), text(2, name)))
        return number

    def _write(self, *fields: bytes) -> None:
        self._file.write(nested(1, *fields))


def _value(value: float | str) -> bytes:
    if isinstance(value, str):
        return text(6, value)
    return whole(4, value) if isinstance(value, int) else real(5, value)
