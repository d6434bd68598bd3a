"""Which loggers are being called, written down where it outlives their process."""

import mmap
import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from hookline.config import EngineConfig

TURN_SECONDS = 5.0
"""How long a logger waits for its turn; the one before it may hang."""


def loggers_of(config: EngineConfig) -> tuple[str, ...]:
    """Returns the names of the loggers that a configuration has."""
    return tuple(
        dict.fromkeys((*config.observers.stat_loggers, *config.implied_loggers))
    )


class MarkFile:
    """The owner's side: a file with a byte for each logger, which it reads at the end.

    Args:
        path: The file.
        loggers: Names of the loggers.
    """

    def __init__(self, path: Path, loggers: Sequence[str]) -> None:
        self._path = path
        self._loggers = loggers

    def clear(self) -> None:
        """Begins a file for a new process, in which no logger is being called."""
        self._path.unlink(missing_ok=True)  # an old process may still write
        self._path.write_bytes(bytes(max(1, len(self._loggers))))

    @property
    def called(self) -> frozenset[str]:
        """The loggers that the process was calling when it ended."""
        marks = self._path.read_bytes()
        return frozenset(
            name for name, mark in zip(self._loggers, marks, strict=False) if mark
        )


class CallMarks:
    """The process's side: marks each logger while it is called.

    A mark is a byte of memory that a file shares, so that no end of the process comes
    too early for it, and setting it costs nothing.

    Args:
        path: The file, which is there.
        loggers: Names of the loggers, as its owner has them.
        suspects: Those that are called one at a time, so that only one of them is
            marked if it ends the process.
    """

    def __init__(
        self, path: Path, loggers: Sequence[str], suspects: Collection[str] = ()
    ) -> None:
        with path.open("r+b") as file:
            marks = mmap.mmap(file.fileno(), 0)
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
