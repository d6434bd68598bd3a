"""Frames of a server's engines: as they come, and of an earlier moment."""

import time
from collections.abc import Iterator
from pathlib import Path

from hookline.clock import NANOSECONDS
from hookline_live.engine_view import EngineView
from hookline_live.frame import WINDOW_SECONDS, EngineFrame, Frame
from hookline_recording.folder import is_live, rings_of
from hookline_recording.reading import stalled_seconds
from hookline_recording.schema import Header
from hookline_recording.tail import RingTail

FRAME_SECONDS = 0.25
MOST_ROWS, MOST_ROWS_OF_MOMENT = 128, 400
WARM_BYTES = 4 * 1024 * 1024
"""What is read before a window, for the requests that had begun: a few key frames."""
STUCK_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_WINDOW_NS = WINDOW_SECONDS * NANOSECONDS
NO_RINGS = (
    "No engine of this server records on this machine: it has ended, or has no flight "
    "recorder. By default it has: --flight-recorder-bytes 64MiB, in its own process."
)


class EngineFeed:
    """One ring, and the view of what was read of it."""

    def __init__(self, ring: Path) -> None:
        """Opens it.

        Raises:
            OSError: It cannot be read.
            RecordingError: It is no ring of this version.
        """
        self._tail = RingTail(ring)
        self.view = EngineView(self._tail.header)

    def close(self) -> None:
        self._tail.close()

    def skip_to(self, wall: int) -> None:
        """Goes on from a moment of the wall clock, in ns, knowing what was before."""
        clock = self.view.clock_of(wall)
        self._tail.seek(clock, WARM_BYTES)
        self._oldest = self._tail.oldest_at
        self._take(clock)
        self.view.forget()

    def _take(self, until: int) -> None:
        for record in self._tail.read():
            self.view.add(record)
            if record.at >= until:
                return

    def frame(self, wall: int, most_rows: int) -> EngineFrame:
        """Reads to a moment and returns what happened."""
        self._take(self.view.clock_of(wall))
        frame = self.view.frame(wall, most_rows)
        frame.lost = self._tail.lost
        if self._oldest is not None:
            oldest = self.view.wall_of(self._oldest)
            frame.oldest = (oldest - wall) // 1_000_000
        return frame

    def describe(self, frame: EngineFrame, now: int) -> None:
        """Adds whether the engine has ended or hangs; `now` is of its clock."""
        state, header = self._tail.state, self._tail.header
        stuck = stalled_seconds(state, header, now)
        if not is_live(self._tail.path):
            frame.state = "ended"
        elif stuck >= STUCK_SECONDS:
            frame.state, frame.reason = "hung", f"{stuck:.0f} s in one step"


class Feed:
    """The frames of the engines that a server owns, one after another."""

    def __init__(self, owner_pid: int) -> None:
        self._owner_pid = owner_pid
        self._feeds: dict[Path, EngineFeed] = {}
        self._looked_at = -_LOOK_SECONDS

    def frames(self) -> Iterator[Frame]:
        """Yields frames for ever, each for the time since the one before."""
        try:
            while True:
                yield self._frame()
                time.sleep(FRAME_SECONDS)
        finally:
            for feed in self._feeds.values():
                feed.close()

    def _frame(self) -> Frame:
        wall, now = time.time_ns(), time.monotonic_ns()
        if now / NANOSECONDS - self._looked_at >= _LOOK_SECONDS:
            self._look(wall)
            self._looked_at = now / NANOSECONDS
        engines = []
        for feed in self._feeds.values():
            frame = feed.frame(wall, MOST_ROWS)
            feed.describe(frame, now)
            engines.append(frame)
        engines.sort(key=_order)
        note = "" if engines else NO_RINGS
        return Frame(wall // 1_000_000, engines, note=note)

    def _look(self, wall: int) -> None:
        """Opens new rings, and closes those that were removed."""
        rings = [ring for ring, _ in newest(rings_of(self._owner_pid))]
        for ring in self._feeds.keys() - rings:
            self._feeds.pop(ring).close()
        for ring in rings:
            if ring not in self._feeds:
                feed = opened(ring)
                if feed is not None:
                    feed.skip_to(wall - NANOSECONDS)
                    self._feeds[ring] = feed


def moment(owner_pid: int, wall: int) -> Frame:
    """Returns the window that ends at a moment of the wall clock, in ns."""
    engines = []
    for ring, _ in rings_of(owner_pid):
        feed = opened(ring)
        if feed is None:
            continue
        try:
            feed.skip_to(wall - _WINDOW_NS)
            frame = feed.frame(wall, MOST_ROWS_OF_MOMENT)
            if abs(time.time_ns() - wall) < NANOSECONDS:
                feed.describe(frame, time.monotonic_ns())
        finally:
            feed.close()
        if frame.columns or frame.rows or is_live(ring):
            engines.append(frame)
    engines.sort(key=_order)
    return Frame(wall // 1_000_000, engines, note="" if engines else NO_RINGS)


def newest(rings: list[tuple[Path, Header]]) -> list[tuple[Path, Header]]:
    """Leaves out rings of engines that another one has replaced; newest come first."""
    seen: set[int] = set()
    found = []
    for ring, header in rings:
        if header.engine_index not in seen:
            seen.add(header.engine_index)
            found.append((ring, header))
    return found


def opened(ring: Path) -> EngineFeed | None:
    """Opens a ring, unless it was removed meanwhile or cannot be read."""
    try:
        return EngineFeed(ring)
    except (OSError, ValueError):
        return None


def _order(frame: EngineFrame) -> int:
    return frame.index
