"""Messages through pipes, sockets and files: each is preceded by its length."""

import os
from collections.abc import Iterator
from struct import Struct

LENGTH = Struct("<I")
MAX_FRAME_BYTES = 1 << 28


class FrameError(ValueError):
    """The bytes end within a message, or announce one that is too large."""


def frame(body: bytes) -> bytes:
    """Returns a message with its length in front."""
    return LENGTH.pack(len(body)) + body


def write_frame(descriptor: int, body: bytes) -> None:
    """Writes a message to a pipe or a socket; waits while it is full.

    Raises:
        ConnectionError: Nobody reads at the other end.
    """
    left = memoryview(frame(body))
    while left:
        left = left[os.write(descriptor, left) :]


def read_frame(descriptor: int) -> bytes | None:
    """Waits for a message in a pipe or a socket and returns it; None at the end.

    Raises:
        FrameError: The other end has closed it within a message, or the message is too
            large.
    """
    head = _read_exactly(descriptor, LENGTH.size)
    return _read_exactly(descriptor, _length(head)) if head else None


class FrameBuffer:
    """Cuts bytes into messages as they arrive."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Adds what has arrived."""
        self._bytes += data

    def next(self) -> bytes | None:
        """Removes the first message and returns it; None if it is not complete yet.

        Raises:
            FrameError: It is too large.
        """
        if len(self._bytes) < LENGTH.size:
            return None
        end = LENGTH.size + _length(self._bytes)
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[LENGTH.size : end])
        del self._bytes[:end]
        return body


def split_frames(data: memoryview) -> Iterator[memoryview]:
    """Yields the messages of a file.

    Raises:
        FrameError: It ends within a message, or a message is too large.
    """
    while data:
        end = LENGTH.size + (_length(data) if len(data) >= LENGTH.size else 0)
        if len(data) < end:
            raise FrameError("the file ends within a message")
        yield data[LENGTH.size : end]
        data = data[end:]


def _length(head: bytes | bytearray | memoryview) -> int:
    length: int = LENGTH.unpack_from(head)[0]
    if length > MAX_FRAME_BYTES:
        raise FrameError(
            f"a message of {length} bytes is larger than {MAX_FRAME_BYTES} bytes"
        )
    return length


def _read_exactly(descriptor: int, size: int) -> bytes:
    """Reads so many bytes; none if it is at its end already."""
    found = b""
    while len(found) < size:
        try:
            part = os.read(descriptor, size - len(found))
        except ConnectionResetError:  # the other end has not read all of ours
            part = b""
        if not part:
            if found:
                raise FrameError("the other end has closed it within a message")
            break
        found += part
    return found
