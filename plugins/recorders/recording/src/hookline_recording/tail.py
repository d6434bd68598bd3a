"""Follows a ring while its engine writes it, from any moment that is still in it."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hookline_recording.frames import MARK_BYTES, frame_at
from hookline_recording.reading import read_header
from hookline_recording.recording import EngineState
from hookline_recording.schema import (
    FRAME,
    HEADER_BYTES,
    STATE,
    STATE_AT,
    Record,
    decoded,
)

_SAMPLES = 64
"""Places of a ring that are looked at to find a moment."""
_GLANCE = 4096


class _Place(NamedTuple):
    number: int
    position: int
    at: int


class RingTail:
    """Reads the records of a ring in order, each once, as they are written.

    Attributes:
        path: The ring.
        header: What it is of.
        lost: Records that were overwritten before they were read, or are damaged.
        oldest_at: Time of about the oldest record when `seek` was called, or None.
    """

    def __init__(self, path: Path) -> None:
        """Opens a ring, or a recording that was saved of one.

        Raises:
            RecordingError: It is no recording, or a newer one.
            OSError: It cannot be read.
        """
        self.path, self.header = path, read_header(path)
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.lost = 0
        self.oldest_at: int | None = None
        self._position, self._next = HEADER_BYTES, 1
        self._last_at = 0
        self._is_late = False

    @property
    def state(self) -> EngineState:
        """What the engine shows."""
        return EngineState(*STATE.unpack_from(self._map, STATE_AT))

    def close(self) -> None:
        self._map.close()

    def seek(self, at: int, before: int = 0) -> None:
        """Goes to about the last record before a moment, or to the oldest one.

        Args:
            at: The moment, of the engine's monotonic clock.
            before: Number of bytes by which to go further back.
        """
        places = sorted(self._sampled())
        if not places:
            return
        self.oldest_at = places[0].at
        chosen = 0
        for index, place in enumerate(places):
            if place.at <= at:
                chosen = index
        step = max(1, (len(self._map) - HEADER_BYTES) // _SAMPLES)
        place = places[max(0, chosen - -(-before // step))]
        self._position, self._next = place.position, place.number

    def read(self) -> Iterator[Record]:
        """Yields the records that are there and were not read."""
        while (body := self._body()) is not None:
            if (record := decoded(body)) is None:
                self.lost += 1
                continue
            self._last_at = record.at
            yield record
        # More was written, yet it does not follow here: it was overwritten meanwhile. A
        # second look makes sure, since records are written before the state is shown.
        is_late = self.state.at > self._last_at
        if is_late and self._is_late:
            self._skip()
        self._is_late = is_late

    def _body(self) -> bytes | None:
        """Returns the next record's bytes, if they are there."""
        for position in (self._position, HEADER_BYTES):  # it may go on at the begin
            found = frame_at(self._map, position)
            if isinstance(found, tuple) and found[0] == self._next:
                self._next += 1
                self._position = position + FRAME.size + len(found[1])
                return found[1]
        return None

    def _skip(self) -> None:
        """Goes to the oldest record that is newer than what was read."""
        later = [place for place in self._sampled() if place.number > self._next]
        if later:
            oldest = min(later)
            self.lost += oldest.number - self._next
            self._position, self._next = oldest.position, oldest.number

    def _sampled(self) -> Iterator[_Place]:
        """Yields the first whole frame after each of some places."""
        size = len(self._map)
        step = max(1, (size - HEADER_BYTES) // _SAMPLES)
        for start in range(HEADER_BYTES, size, step):
            if not self._map[start : start + _GLANCE].strip(b"\0"):
                continue  # it was never written
            part = self._map[start : start + step]
            offset = part.find(MARK_BYTES)
            while offset >= 0:
                found = frame_at(self._map, start + offset)
                record = decoded(found[1]) if isinstance(found, tuple) else None
                if isinstance(found, tuple) and record is not None:
                    yield _Place(found[0], start + offset, record.at)
                    break
                offset = part.find(MARK_BYTES, offset + 1)
