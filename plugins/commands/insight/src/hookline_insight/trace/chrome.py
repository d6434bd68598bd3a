"""Writes the JSON that Chrome's viewer, and Perfetto's, read: an array of events."""

import json
from typing import BinaryIO

from hookline_insight.trace.canvas import NO_FLOWS, NO_NOTES, Flows, Notes, Track

_MICROSECOND = 1000


class ChromeCanvas:
    """A trace of JSON events; of it, only the ids of arrows under way are held.

    Its times are from the begin, since a number of JSON has too few digits for the
    epoch's.
    """

    def __init__(self, file: BinaryIO, begin: int) -> None:
        """Begins a trace at a wall clock's time, ns since the epoch."""
        self._file, self._begin = file, begin
        self._tracks = 0
        self._flows: set[int] = set()
        self._file.write(b"[")
        self._separator = b"\n"

    def engine(self, pid: int, name: str) -> Track:
        self._tracks += 1
        track = Track(self._tracks, self._tracks, name)
        self._describe(track, "process_name", {"name": f"{name}, process {pid}"})
        begun = {"labels": f"begins at {self._begin} ns since 1970"}
        self._describe(track, "process_labels", begun)
        return track

    def track(self, engine: Track, name: str, parent: Track | None = None) -> Track:
        self._tracks += 1
        track = Track(self._tracks, engine.process, name)
        shown = name if parent is None else f"{parent.name} {name}"
        self._describe(track, "thread_name", {"name": shown})
        self._describe(track, "thread_sort_index", {"sort_index": track.number})
        return track

    def counter(self, engine: Track, name: str, unit: str) -> Track:
        self._tracks += 1
        return Track(self._tracks, engine.process, f"{name} ({unit})")

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
        del is_own_name
        self._event(track, "B", at, name=name, args=notes)
        for ids, is_last in ((flows.through, False), (flows.ending, True)):
            for flow in ids:
                self._flow(track, at, flow, is_last=is_last)

    def leave(self, track: Track, at: int, notes: Notes = NO_NOTES) -> None:
        self._event(track, "E", at, args=notes)

    def count(self, track: Track, at: int, value: int) -> None:
        self._event(track, "C", at, name=track.name, args={"value": value})

    def close(self) -> None:
        self._file.write(b"\n]\n")

    def _flow(self, track: Track, at: int, flow: int, *, is_last: bool) -> None:
        if flow not in self._flows:
            if is_last:
                return
            self._flows.add(flow)
            phase = "s"
        else:
            phase = "f" if is_last else "t"
        if is_last:
            self._flows.discard(flow)
        named: dict[str, object] = {"name": "request", "cat": "request", "id": flow}
        self._event(track, phase, at, bp="e", **named)

    def _event(self, track: Track, phase: str, at: int, **fields: object) -> None:
        microseconds, rest = divmod(at - self._begin, _MICROSECOND)
        event = {"ph": phase, "pid": track.process, "tid": track.number, **fields}
        # A float would not be exact.
        time = f'{{"ts":{microseconds}.{rest:03},'
        self._write(time + json.dumps(event, separators=(",", ":"))[1:])

    def _describe(self, track: Track, name: str, fields: Notes) -> None:
        event = {"ph": "M", "pid": track.process, "tid": track.number, "name": name}
        self._write(json.dumps({**event, "args": fields}, separators=(",", ":")))

    def _write(self, line: str) -> None:
        self._file.write(self._separator + line.encode())
        self._separator = b",\n"
