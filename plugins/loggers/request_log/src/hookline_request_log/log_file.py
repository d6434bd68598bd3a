"""A file of whole lines that several processes may share, and its rotation."""

import contextlib
import fcntl
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from pathlib import Path

from hookline.clock import NANOSECONDS, Clock
from hookline_request_log.output import write_whole

HOUR = 3600 * NANOSECONDS
# Reading is for finding a torn last line.
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOCTTY
MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """When a file is put aside for a new one, and how many are kept.

    Attributes:
        max_bytes: A file grows no further, unless by a single line.
        backups: Files kept besides the present one: `PATH.1` is the newest.
        is_hourly: Also begin a new file with the first line of each hour, UTC.
    """

    max_bytes: int
    backups: int
    is_hourly: bool = False


class LogFile:
    """Appends lines to the file that has the path now.

    A lock on the file itself lets one process at a time write or rotate. Whoever finds
    that the path means another file by now (rotated, removed, put back) follows it.

    Attributes:
        name: The path.
    """

    def __init__(self, path: Path, rotation: Rotation, clock: Clock) -> None:
        self.name = str(path)
        self._path = path
        self._rotation = rotation
        self._clock = clock
        self._descriptor: int | None = None

    def write(self, lines: deque[bytes]) -> None:
        """Writes the lines, and takes each off the left once it is written.

        Raises:
            OSError: The lines that are left could not be written. No part of them is in
                the file, and the next call opens it again.
        """
        try:
            while lines:
                with self._locked() as descriptor:
                    _end_torn_line(descriptor)
                    self._rotate_or_append(descriptor, lines)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Gives the descriptor back; a later write opens the file again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _rotate_or_append(self, descriptor: int, lines: deque[bytes]) -> None:
        status = os.fstat(descriptor)
        if self._is_full(status, lines[0]):
            self._rotate()
            return
        count = self._fitting(status.st_size, lines)
        _append(descriptor, b"".join(list(lines)[:count]), status)
        for _ in range(count):
            lines.popleft()

    def _is_full(self, status: os.stat_result, line: bytes) -> bool:
        if status.st_size == 0:
            return False
        if status.st_size + len(line) > self._rotation.max_bytes:
            return True
        hour = self._clock.wall() // HOUR
        return self._rotation.is_hourly and status.st_mtime_ns // HOUR < hour

    def _fitting(self, size: int, lines: Sequence[bytes]) -> int:
        """How many lines the file has room for; at least one, so that it goes on."""
        ends = accumulate(map(len, lines), initial=size)
        next(ends)
        room = takewhile(lambda end: end <= self._rotation.max_bytes, ends)
        return max(1, sum(1 for _ in room))

    def _rotate(self) -> None:
        """Renames the files, oldest first, so that a failure in between loses none."""
        target = self._path.resolve()  # behind a link, the file moves and it stays
        numbers = range(self._rotation.backups, 0, -1)
        backups = [target.with_name(f"{target.name}.{number}") for number in numbers]
        if not backups:
            target.unlink()
        for older, newer in pairwise((*backups, target)):
            with contextlib.suppress(FileNotFoundError):
                newer.rename(older)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = self._lock()
        try:
            yield descriptor
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _lock(self) -> int:
        while True:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, FLAGS, MODE)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if self._is_current(self._descriptor):
                return self._descriptor
            self.close()

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False


def _append(descriptor: int, data: bytes, before: os.stat_result) -> None:
    try:
        write_whole(descriptor, data)
    except OSError:
        if stat.S_ISREG(before.st_mode):  # a part may be in: nobody else can write now
            os.ftruncate(descriptor, before.st_size)
        raise


def _end_torn_line(descriptor: int) -> None:
    """Ends a line that a process left half-written when it was killed."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        write_whole(descriptor, b"\n")


def create_log(path: Path) -> str | None:
    """Makes sure that lines could be written; gives what is wrong otherwise.

    Raises:
        OSError: The file cannot be opened.
    """
    if path.exists() and not (path.is_file() or path.is_char_device()):
        return f"{path} is not a file"
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    # A device, such as /dev/null, is never rotated and needs no room beside it.
    if not path.is_char_device() and not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is not writable"
    os.close(os.open(path, FLAGS, MODE))
    return None
