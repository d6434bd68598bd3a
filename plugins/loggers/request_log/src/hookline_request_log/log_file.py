"""A log file that several processes may share, and its rotation."""

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
from hookline_processes.private_files import private_descriptor
from hookline_request_log.output import write_whole

HOUR = 3600 * NANOSECONDS
# Read access is needed to detect a torn last line.
_FLAGS = os.O_RDWR | os.O_APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """When a file is rotated, and how many rotated files are kept.

    Attributes:
        max_bytes: Maximum file size in bytes; only a single longer line exceeds it.
        backups: Number of rotated files to keep; `PATH.1` is the newest.
        is_hourly: Whether to rotate with the first line of each hour, UTC, as well.
    """

    max_bytes: int
    backups: int
    is_hourly: bool = False


class LogFile:
    """Appends lines to the file that currently has the path.

    A lock on the file lets one process at a time write or rotate. A process that finds
    another file at the path (rotated, removed, restored) reopens it.

    Attributes:
        name: Path of the file.
    """

    def __init__(self, path: Path, rotation: Rotation, clock: Clock) -> None:
        self.name = str(path)
        self._path = path
        self._rotation = rotation
        self._clock = clock
        self._descriptor: int | None = None

    def write(self, lines: deque[bytes]) -> None:
        """Writes the lines, removing each from the left once it is written.

        Raises:
            OSError: The remaining lines could not be written. No part of them is in the
                file, and the next call reopens it.
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
        """Closes the file; a later write reopens it."""
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
        """Returns the number of lines that fit into the file, at least one."""
        ends = accumulate(map(len, lines), initial=size)
        next(ends)
        room = takewhile(lambda end: end <= self._rotation.max_bytes, ends)
        return max(1, sum(1 for _ in room))

    def _rotate(self) -> None:
        """Renames the files, oldest first, so that a failure in between loses none."""
        target, numbers = self._path, range(self._rotation.backups, 0, -1)
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
                self._descriptor = private_descriptor(self._path, _FLAGS)
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
        if stat.S_ISREG(before.st_mode):  # undo a partial write, under the lock
            os.ftruncate(descriptor, before.st_size)
        raise


def _end_torn_line(descriptor: int) -> None:
    """Ends a line that a killed process left half-written."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        write_whole(descriptor, b"\n")


def create_log(path: Path) -> str | None:
    """Creates the file if necessary; returns an error text if it cannot be a log.

    Raises:
        OSError: The file cannot be opened.
    """
    if path.exists() and not (path.is_file() or path.is_char_device()):
        return f"{path} is not a file"
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    # A device, such as /dev/null, is never rotated, so its folder may be read-only.
    if not path.is_char_device() and not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {folder} is not writable"
    os.close(private_descriptor(path, _FLAGS))
    return None
