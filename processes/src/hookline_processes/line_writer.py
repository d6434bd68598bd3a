"""Writes log lines from a thread, and drops them if nobody reads."""

import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Generic, TypeVar

from hookline_registry import Failure, isolate

T = TypeVar("T")

MAX_WAITING = 10_000
"""Default maximum number of lines that wait to be written."""

BATCH_SECONDS = 0.05
"""Lines that are not urgent wait this long for others, which are written with them."""

_MAX_BATCH = 1000


class LineWriter(Generic[T]):
    """Renders and writes lines in a thread, in their order.

    A line that comes while too many wait is dropped and counted: the program goes on
    while nobody reads the pipe of its log, or while a disk hangs. So is a line that
    cannot be rendered. After a failed write, such as to a closed pipe, all lines are
    dropped.

    Attributes:
        dropped: Number of lines dropped so far.
    """

    def __init__(
        self,
        descriptor: int,
        render: Callable[[T], bytes],
        *,
        render_dropped: Callable[[int], bytes],
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """Starts the thread.

        Args:
            descriptor: File descriptor to write to; it stays open.
            render: Makes one line, with its end, out of what `write` received.
            render_dropped: Makes the line that reports this many dropped lines.
            max_waiting: Maximum number of lines that wait.
        """
        self._descriptor = descriptor
        self._render = render
        self._render_dropped = render_dropped
        self._max_waiting = max_waiting
        self._queue: SimpleQueue[T | None] = SimpleQueue()
        self._hurry = threading.Event()
        self._reported = 0
        self._is_broken = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: T, *, is_urgent: bool = False) -> None:
        """Queues a line; urgent ones are written at once, others in batches."""
        if self._is_broken or self._queue.qsize() >= self._max_waiting:
            self.dropped += 1
            return
        self._queue.put(line)
        if is_urgent:
            self._hurry.set()

    def close(self, timeout_seconds: float) -> bool:
        """Writes what waits and ends the thread; False if that takes too long."""
        self._queue.put(None)
        self._hurry.set()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until no line waits to be taken; False if that takes too long."""
        deadline = time.monotonic() + timeout_seconds
        while not self._queue.empty():
            self._hurry.set()
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def _run(self) -> None:
        is_open = True
        while is_open:
            lines = [self._queue.get()]
            self._hurry.wait(BATCH_SECONDS)
            self._hurry.clear()
            while len(lines) < _MAX_BATCH and not self._queue.empty():
                lines.append(self._queue.get())
            is_open = None not in lines
            self._write([line for line in lines if line is not None])

    def _write(self, lines: list[T]) -> None:
        rendered = [*self._rendered(lines)]
        if self.dropped > self._reported and not self._is_broken:
            rendered.append(self._render_dropped(self.dropped - self._reported))
            self._reported = self.dropped
        if self._is_broken:
            self.dropped += len(lines)
            return
        try:
            self._write_all(b"".join(rendered))
        except OSError:
            self._is_broken = True
            self.dropped += len(lines)

    def _rendered(self, lines: list[T]) -> Iterable[bytes]:
        for line in lines:
            rendered = isolate(self._render, line)  # a field may be any object
            if isinstance(rendered, Failure):
                self.dropped += 1
            else:
                yield rendered

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process has made it non-blocking
                select.select([], [self._descriptor], [])
