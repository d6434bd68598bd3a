"""Messages through a pipe: each is preceded by its length."""

import os

_LENGTH_BYTES = 4


def framed(data: bytes) -> bytes:
    """Returns a message with its length in front."""
    return len(data).to_bytes(_LENGTH_BYTES) + data


def read_frame(descriptor: int) -> bytes:
    """Waits for a message and returns it; empty if the pipe ends before it is whole."""
    length = int.from_bytes(_read_exactly(descriptor, _LENGTH_BYTES))
    return _read_exactly(descriptor, length)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all bytes to a pipe; waits while it is full.

    Raises:
        BrokenPipeError: Nobody reads the pipe.
    """
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _read_exactly(descriptor: int, size: int) -> bytes:
    """Reads so many bytes; none if the pipe ends before."""
    found = b""
    while len(found) < size and (part := os.read(descriptor, size - len(found))):
        found += part
    return found if len(found) == size else b""
