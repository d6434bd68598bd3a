"""Where the records of an engine go: a ring, or files one after another."""

import logging
from functools import partial
from itertools import count
from pathlib import Path

from hookline_recording.folder import ring_path, rings_folder
from hookline_recording.recorder import KEY_FRAME_BYTES
from hookline_recording.ring import MappedFile, fair_share, largest
from hookline_recording.schema import Header

LEAST_RING_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


class RingStore:
    """A ring in the folder of rings.

    It is removed once the engine is closed, and stays if the engine fails.
    """

    def __init__(self, capacity: int, header: Header) -> None:
        """Makes the ring, a smaller one if room is short.

        Raises:
            OSError: There is no place for one.
        """
        folder = rings_folder()
        for number in count():
            path = ring_path(folder, header.engine_index, header.pid, number)
            if not path.exists():
                break
        make = partial(_make, path, header)
        share = fair_share(folder, capacity)
        self._file = largest(make, share, LEAST_RING_BYTES)
        if self._file.capacity < capacity:
            _log.warning(
                "the flight recorder has %d bytes, not %d: %s is short of room",
                self._file.capacity,
                capacity,
                folder,
            )
        self.path = path
        self.write, self.show = self._file.write, self._file.show
        self.key_frame_bytes = min(KEY_FRAME_BYTES, self._file.capacity // 16)

    @property
    def written(self) -> int:
        return self._file.written

    def close(self, error: BaseException | None) -> None:
        self._file.close(is_kept=error is not None)


class FileStore:
    """A file, and once it is full another: `FILE`, `FILE.part2` and so on.

    It ends, and the engine goes on, once there is no room for another.
    """

    def __init__(self, path: Path, max_bytes: int, header: Header) -> None:
        """Makes the first file.

        Raises:
            OSError: It cannot be made.
        """
        self._path, self._max_bytes, self._header = path, max_bytes, header
        self._parts = 1
        self._file: MappedFile | None = self._make(path)
        self._closed_bytes = self._dropped = 0
        self.key_frame_bytes = KEY_FRAME_BYTES

    @property
    def written(self) -> int:
        return self._closed_bytes + (self._file.written if self._file else 0)

    def write(self, number: int, body: bytes) -> None:
        if self._file is not None and not self._file.has_room(len(body)):
            self._next_file()
        if self._file is None:
            self._dropped += 1
            return
        self._file.write(number, body)

    def show(self, at: int, busy_since: int, num_open: int, num_steps: int) -> None:
        if self._file is not None:
            self._file.show(at, busy_since, num_open, num_steps)

    def close(self, error: BaseException | None) -> None:
        del error
        if self._file is not None:
            self._file.close(is_kept=True, is_trimmed=True)
        if self._dropped:
            _log.warning(
                "%s lacks %d records beyond its end", self._path, self._dropped
            )

    def _make(self, path: Path) -> MappedFile:
        make = partial(_make, path, self._header)
        return largest(make, self._max_bytes, LEAST_RING_BYTES)

    def _next_file(self) -> None:
        assert self._file is not None
        self._closed_bytes += self._file.written
        self._file.close(is_kept=True, is_trimmed=True)
        self._parts += 1
        path = Path(f"{self._path}.part{self._parts}")
        try:
            self._file = self._make(path)
        except OSError as error:
            self._file = None
            _log.error("recording ends: cannot write %s: %s", path, error.strerror)


def _make(path: Path, header: Header, capacity: int) -> MappedFile:
    return MappedFile(path, capacity, header)
