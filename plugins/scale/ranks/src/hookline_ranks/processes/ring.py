"""Messages from one process to several others, through a ring in shared memory.

A message is written once, whatever the number of readers, in as many slots as it needs:
one that is larger than the whole ring flows through it. The writer waits for a slot
until all readers have taken what is in it. A reader that has nothing to read looks at
the memory for a moment and then sleeps at its bell, an eventfd.
"""

import os
import platform
import select
import threading
import time
from collections.abc import Callable, Sequence

from hookline_ranks.processes.shared_memory import SharedMemory

SLOTS = 8
SLOT_BYTES = 256 * 1024

_LINE = 8
"""Words of a cache line: each counter has its own."""
_WORD = 8
_HEAD = 8
"""Bytes of a slot's head: the length of its part, and whether it is the last one."""
_PART_BYTES = SLOT_BYTES - _HEAD
_LOOK_NS = 20_000 if platform.machine() in {"x86_64", "AMD64"} else 0
"""How long a reader looks before it sleeps. Elsewhere stores may be seen out of order
until a system call has passed on both sides."""
_FULL_SECONDS = 0.0002
"""Sleep of a writer that waits for a slot."""


def ring_bytes(num_readers: int) -> int:
    """Returns the size of a ring's memory."""
    return _slots_at(num_readers) + SLOTS * SLOT_BYTES


def make_bell() -> int:
    """Returns the descriptor on which a reader sleeps; it can be inherited."""
    return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


class RingWriter:
    """The writing end; for one thread."""

    def __init__(self, memory: SharedMemory, bells: Sequence[int]) -> None:
        """Begins an empty ring.

        Args:
            memory: The ring's memory, of `ring_bytes` of the number of readers.
            bells: The readers' bells, in their order.
        """
        self._words = memory.view.cast("q")
        self._bytes = memory.view
        self._bells = bells
        self._start = _slots_at(len(bells))
        self._written = 0

    def write(self, message: bytes, check: Callable[[], None]) -> None:
        """Writes a message.

        Args:
            message: Any bytes.
            check: Called now and then while all slots are full; may raise an error.
        """
        for start in range(0, max(1, len(message)), _PART_BYTES):
            part = message[start : start + _PART_BYTES]
            is_last = start + _PART_BYTES >= len(message)
            while self._is_full:
                check()
                time.sleep(_FULL_SECONDS)
            self._put(part, is_last=is_last)

    def _put(self, part: bytes, *, is_last: bool) -> None:
        at = self._start + self._written % SLOTS * SLOT_BYTES
        head = (len(part) << 1 | is_last).to_bytes(_HEAD, "little")
        self._bytes[at : at + _HEAD] = head
        self._bytes[at + _HEAD : at + _HEAD + len(part)] = part
        fence()
        self._written += 1
        self._words[0] = self._written
        for bell in self._bells:
            os.eventfd_write(bell, 1)

    @property
    def _is_full(self) -> bool:
        reads = (self._words[_LINE * (1 + each)] for each in range(len(self._bells)))
        return self._written - min(reads) >= SLOTS


class RingReader:
    """One reading end; for one thread."""

    def __init__(
        self, memory: SharedMemory, bell: int, *, index: int = 0, readers: int = 1
    ) -> None:
        """Reads from the ring's beginning.

        Args:
            memory: The ring's memory.
            bell: This reader's bell.
            index: Its index among the readers.
            readers: Number of readers.
        """
        self._words = memory.view.cast("q")
        self._bytes = memory.view
        self._bell = bell
        self._start = _slots_at(readers)
        self._place = _LINE * (1 + index)
        self._read = 0
        self._parts: list[bytes] = []
        self._poll = select.poll()
        self._poll.register(bell, select.POLLIN)

    def read(self, timeout_seconds: float | None) -> bytes | None:
        """Waits for the next message.

        Args:
            timeout_seconds: How long at most; None waits without an end.

        Returns:
            The message; None if none came in time, after `wake`, and now and then for
            no reason.
        """
        while self._words[0] != self._read or self._wait(timeout_seconds):
            if self._take():
                message = b"".join(self._parts)
                self._parts.clear()
                return message
        return None

    def wake(self) -> None:
        """Ends the sleep of `read`; from any thread."""
        os.eventfd_write(self._bell, 1)

    def _take(self) -> bool:
        """Takes a part; returns whether it is a message's last."""
        fence()
        at = self._start + self._read % SLOTS * SLOT_BYTES
        head = int.from_bytes(self._bytes[at : at + _HEAD], "little")
        self._parts.append(bytes(self._bytes[at + _HEAD : at + _HEAD + (head >> 1)]))
        fence()
        self._read += 1
        self._words[self._place] = self._read
        return bool(head & 1)

    def _wait(self, timeout_seconds: float | None) -> bool:
        """Waits for a part; returns whether there is one."""
        end = time.perf_counter_ns() + _LOOK_NS
        while time.perf_counter_ns() < end:
            if self._words[0] != self._read:
                return True
        wait = None if timeout_seconds is None else round(1000 * timeout_seconds)
        if self._poll.poll(wait):
            os.eventfd_read(self._bell)
        return self._words[0] != self._read


def _slots_at(num_readers: int) -> int:
    return _WORD * _LINE * (1 + num_readers)


_lock = threading.Lock()


def fence() -> None:
    """Keeps the order of loads and stores around it, also for other processes."""
    with _lock:
        pass
