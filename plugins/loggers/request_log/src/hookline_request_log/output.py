"""Where lines go, and the plainest such place: standard output."""

import os
from collections import deque
from typing import Protocol


class Output(Protocol):
    """Takes whole lines; used by one thread.

    Attributes:
        name: For messages.
    """

    @property
    def name(self) -> str: ...

    def write(self, lines: deque[bytes]) -> None:
        """Writes the lines and takes each off the left once it is written.

        Raises:
            OSError: The lines that are left could not be written. The next call starts
                afresh.
        """
        ...

    def close(self) -> None:
        """Gives back what is open; a later write opens it again."""
        ...


class StandardOutput:
    """File descriptor 1, whatever Python has put before it.

    Attributes:
        name: For messages.
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
        """Leaves it open: it belongs to the process."""


def write_whole(descriptor: int, data: bytes) -> None:
    """Writes all of it, in one call unless the system takes only part at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
