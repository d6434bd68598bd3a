"""Which loggers are being called, written down where it outlives their process."""

import mmap
import os
import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

from hookline.config import EngineConfig
from hookline_host.folders import nameless_file

TURN_SECONDS = 5.0
"""How long a logger waits for its turn; the one before it may hang."""


def loggers_of(config: EngineConfig) -> tuple[str, ...]:
    """Returns the names of the loggers that a configuration has."""
    return tuple(
        dict.fromkeys((*config.observers.stat_loggers, *config.implied_loggers))
    )


class MarkFile:
    """The owner's side: a byte for each logger, which it reads at the process's end.

    The file has no name, so that nobody can remove it.

    Args:
        loggers: Names of the loggers.
    """

    def __init__(self, loggers: Sequence[str]) -> None:
        self._loggers = loggers
        self._file: BinaryIO | None = None

    def renew(self) -> int:
        """Begins a file for a new process, in which no logger is being called.

        Returns:
            Its descriptor, which the process inherits; an old process keeps its own.

        Raises:
            OSError: There is no room for it.
        """
        self.close()
        self._file = nameless_file("hookline-calls")
        self._file.write(bytes(max(1, len(self._loggers))))
        self._file.flush()
        return self._file.fileno()

    @property
    def called(self) -> frozenset[str]:
        """The loggers that the process was calling when it ended."""
        if self._file is None:
            return frozenset()
        marks = os.pread(self._file.fileno(), len(self._loggers), 0)
        return frozenset(
            name for name, mark in zip(self._loggers, marks, strict=False) if mark
        )

    def close(self) -> None:
        """Forgets the file; may be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None


class CallMarks:
    """The process's side: marks each logger while it is called.

    A mark is a byte of memory that a file shares, so that no end of the process comes
    too early for it, and setting it costs nothing.

    Args:
        descriptor: That of the owner's file, which is closed.
        loggers: Names of the loggers, as its owner has them.
        suspects: Those that are called one at a time, so that only one of them is
            marked if it ends the process.
    """

    def __init__(
        self, descriptor: int, loggers: Sequence[str], suspects: Collection[str] = ()
    ) -> None:
        marks = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        turn = threading.Lock()
        self._calls = {
            name: _MarkedCall(marks, place, turn if name in suspects else None)
            for place, name in enumerate(loggers)
        }

    def around(self, logger: str) -> AbstractContextManager[object]:
        """Returns what marks one logger, which one thread at a time may enter."""
        return self._calls[logger]


class _MarkedCall:
    def __init__(
        self, marks: mmap.mmap, place: int, turn: "threading.Lock | None"
    ) -> None:
        self._marks = marks
        self._place = place
        self._turn = turn
        self._has_turn = False

    def __enter__(self) -> None:
        if self._turn is not None:
            self._has_turn = self._turn.acquire(timeout=TURN_SECONDS)
        self._marks[self._place] = 1

    def __exit__(self, *_: object) -> None:
        self._marks[self._place] = 0
        if self._has_turn and self._turn is not None:
            self._has_turn = False
            self._turn.release()
