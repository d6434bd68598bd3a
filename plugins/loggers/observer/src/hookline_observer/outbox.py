"""Encoded notices that wait to be sent to the observer process."""

import threading
from collections import deque
from typing import NamedTuple

MOST_BYTES = 32 << 20
"""Maximum total size of the notices that wait."""

FRAME_BYTES = 4 << 20
"""Size at which a frame is full; it may exceed it by one notice."""


class Waiting(NamedTuple):
    """An encoded notice, and when it was put into the outbox, in monotonic ns."""

    notice: bytes
    since: int


class Outbox:
    """A bounded queue that drops its oldest notices; `put` never waits. Thread-safe."""

    def __init__(self, max_notices: int, max_bytes: int = MOST_BYTES) -> None:
        self._max_notices = max_notices
        self._max_bytes = max_bytes
        self._queue: deque[Waiting] = deque()
        self._bytes = 0
        self._dropped = 0
        self._is_hurried = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> int:
        """Number of notices dropped so far."""
        return self._dropped

    def put(self, notice: bytes, now: int) -> None:
        """Appends a notice."""
        with self._changed:
            was_empty = not self._queue
            self._queue.append(Waiting(notice, now))
            self._bytes += len(notice)
            while self._is_over():
                self._drop_oldest()
            if was_empty or self._is_filling():
                self._changed.notify_all()

    def lose(self) -> None:
        """Counts a notice that cannot be sent at all."""
        with self._changed:
            self._dropped += 1

    def put_first(self, notices: list[Waiting]) -> None:
        """Puts notices before all others, such as those that could not be sent."""
        with self._changed:
            self._queue.extendleft(reversed(notices))
            self._bytes += sum(len(each.notice) for each in notices)
            while self._is_over():
                self._drop_oldest()

    def put_before_all(self, notices: list[Waiting]) -> None:
        """Puts notices before all others, the oldest of which make room for them."""
        with self._changed:
            room = self._max_notices - len(notices)
            while self._queue and len(self._queue) > room:
                self._drop_oldest()
            self._queue.extendleft(reversed(notices))
            self._bytes += sum(len(each.notice) for each in notices)
            self._changed.notify_all()

    def drain(self) -> list[Waiting]:
        """Takes the oldest notices, as many as fit into a frame."""
        taken: list[Waiting] = []
        size = 0
        with self._changed:
            while self._queue and size < FRAME_BYTES:
                taken.append(self._queue.popleft())
                size += len(taken[-1].notice)
            self._bytes -= size
        return taken

    def wait(self, idle_seconds: float, linger_seconds: float) -> None:
        """Waits for a notice, then for more of them to be sent together.

        `hurry` ends the wait.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._queue) or self._is_hurried, idle_seconds
            )
            if self._queue:
                self._changed.wait_for(
                    lambda: self._is_hurried or self._is_filling(), linger_seconds
                )
            self._is_hurried = False

    def pause(self, seconds: float) -> None:
        """Waits, whatever is put in; `hurry` ends the wait."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_hurried, seconds)
            self._is_hurried = False

    def hurry(self) -> None:
        """Ends a wait at once, or the next one."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def _is_over(self) -> bool:
        is_large = self._bytes > self._max_bytes and len(self._queue) > 1
        return is_large or len(self._queue) > self._max_notices

    def _is_filling(self) -> bool:
        return (
            len(self._queue) * 2 >= self._max_notices
            or self._bytes * 4 >= self._max_bytes
        )

    def _drop_oldest(self) -> None:
        self._bytes -= len(self._queue.popleft().notice)
        self._dropped += 1
