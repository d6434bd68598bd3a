"""Files that frames are written to through memory, without a system call.

All of a file is allocated when it is made: were a page of it written for the first time
while the disk is full, the kernel would end the process.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from hookline_processes.private_files import private_descriptor
from hookline_recording.schema import (
    FRAME,
    HEADER_BYTES,
    MAGIC,
    MARK,
    PREFIX,
    STATE,
    STATE_AT,
    VERSION,
    Header,
)

_pack, _crc, _FRAME_BYTES = FRAME.pack_into, crc32, FRAME.size


class MappedFile:
    """A file with a header, and frames behind it; locked while it is written.

    Attributes:
        path: The file.
        capacity: Bytes for frames.
        written: Bytes of all frames so far.
    """

    def __init__(self, path: Path, capacity: int, header: Header) -> None:
        """Makes the file, for this user only; one that exists is emptied.

        Raises:
            OSError: It cannot be made, or there is no room for it.
        """
        self.path, self.capacity, self.written = path, capacity, 0
        self._position, self._end = HEADER_BYTES, HEADER_BYTES + capacity
        self._descriptor = private_descriptor(path, os.O_RDWR)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(self._descriptor, 0, self._end)
            self._map = mmap.mmap(self._descriptor, self._end)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            os.close(self._descriptor)
            error.filename = str(path)
            raise
        self._map[: HEADER_BYTES - 64] = _encoded(header).ljust(
            HEADER_BYTES - 64, b"\0"
        )

    def has_room(self, size: int) -> bool:
        """Whether a record fits before the end."""
        return self._position + _FRAME_BYTES + size <= self._end

    def write(self, number: int, body: bytes) -> None:
        """Writes a record; it is whole as soon as its checksum is right."""
        size = _FRAME_BYTES + len(body)
        position = self._position
        after = position + size
        if after > self._end:
            position, after = self._wrap(size)
        memory = self._map
        memory[position + _FRAME_BYTES : after] = body
        checksum = _crc(body, number & 0xFFFFFFFF)
        _pack(memory, position, MARK, len(body), number, checksum)
        self._position = after
        self.written += size

    def show(self, at: int, busy_since: int, num_open: int, num_steps: int) -> None:
        """Tells a watch how the engine is."""
        STATE.pack_into(self._map, STATE_AT, at, busy_since, num_open, num_steps)

    def close(self, *, is_kept: bool, is_trimmed: bool = False) -> None:
        """Closes the file; removes it, or cuts what no frame has been written to."""
        self._map.close()
        if is_trimmed:
            os.ftruncate(self._descriptor, self._position)
        if not is_kept:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)

    def _wrap(self, size: int) -> tuple[int, int]:
        """Goes on at the begin; what is left at the end becomes no frame."""
        if HEADER_BYTES + size > self._end:
            raise ValueError(f"a record of {size} bytes does not fit")
        self._map[self._position : self._end] = bytes(self._end - self._position)
        return HEADER_BYTES, HEADER_BYTES + size


def _encoded(header: Header) -> bytes:
    body = msgspec.msgpack.encode(header)
    if PREFIX.size + len(body) > STATE_AT:
        header = msgspec.structs.replace(header, facts=b"", config=b"")
        body = msgspec.msgpack.encode(header)
    return PREFIX.pack(MAGIC, VERSION, len(body), crc32(body)) + body


def fair_share(folder: Path, capacity: int) -> int:
    """Returns how much of a capacity a ring may take, which it takes at once.

    That is a quarter of what is free, for a copy of it and others need room, too, such
    as for shared memory.

    Raises:
        OSError: The folder is gone.
    """
    free = os.statvfs(folder)
    return max(1, min(capacity, free.f_bavail * free.f_frsize // 4))


def largest(make: Callable[[int], MappedFile], capacity: int, least: int) -> MappedFile:
    """Makes a file of this size, or of half as much and so on where room is short.

    Raises:
        OSError: There is no room for `least` bytes, or the file cannot be made.
    """
    while True:
        try:
            return make(capacity)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            if capacity // 2 < least:
                raise
            capacity //= 2
