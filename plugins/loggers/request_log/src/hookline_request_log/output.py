"""The interface of outputs, and standard output."""

import os
from collections import deque
from typing import Protocol


class Output(Protocol):
    """Destination of whole lines; used by one thread.

    Attributes:
        name: Name of the output in messages.
    """

    @property
    def name(self) -> str: ...

    def write(self, lines: deque[bytes]) -> None:
        """Writes the lines, removing each from the left once it is written.

        Raises:
            OSError: The remaining lines could not be written. A later call tries again
                with its own lines.
        """
        ...

    def close(self) -> None:
        """Closes the output; a later write reopens it."""
        ...


class StandardOutput:
    """Standard output by its file descriptor, without Python's buffers.

    Attributes:
        name: Name of the output in messages.
    """

    name = "standard output"

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._may_be_torn = False

    def write(self, lines: deque[bytes]) -> None:
        start = b"\n" if self._may_be_torn else b""
        self._may_be_torn = True
        write_whole(self._descriptor, start + b"".join(lines))
        self._may_be_torn = False
        lines.clear()

    def close(self) -> None:
        """Leaves the descriptor open: it belongs to the process."""


def write_whole(descriptor: int, data: bytes) -> None:
    """Writes all data, in one call unless the system accepts only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
