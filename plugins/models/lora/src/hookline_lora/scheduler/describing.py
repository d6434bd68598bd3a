"""Reads what adapters' files are, in one thread beside the engine's."""

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from hookline.exceptions import HooklineError
from hookline_lora.adapter import AdapterRef
from hookline_lora.config import AdapterSource
from hookline_registry.isolation import Failure, isolate

Describe = Callable[[AdapterSource], AdapterRef]
"""Reads and checks an adapter's files; raises a `HooklineError` if they are wrong."""

MOST_QUEUED = 64
"""Number of adapters that may wait to be described."""
CLOSE_SECONDS = 10.0
"""Longest wait for the adapter that is being read when the engine ends."""


@dataclass(frozen=True, slots=True)
class Described:
    """An adapter whose files have been read.

    Attributes:
        key: What `ask` was given.
        ref: The adapter; None if it cannot be served.
        error: Why not.
    """

    key: str
    ref: AdapterRef | None
    error: str = ""


class Describing:
    """A thread that describes adapters, one by one; begun with the first.

    Attributes:
        num_pending: Number of adapters that `drain` has yet to return.
    """

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._asked: queue.SimpleQueue[tuple[str, AdapterSource] | None] = (
            queue.SimpleQueue()
        )
        self._ended: queue.SimpleQueue[Described] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.num_pending = 0

    def ask(self, key: str, source: AdapterSource) -> bool:
        """Has an adapter described; False if too many are waiting."""
        if self.num_pending >= MOST_QUEUED:
            return False
        self.num_pending += 1
        self._asked.put((key, source))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="lora-files", daemon=True
            )
            self._thread.start()
        return True

    @property
    def has_ended(self) -> bool:
        """Whether `drain` would return all that is pending."""
        return self._ended.qsize() == self.num_pending

    def drain(self) -> list[Described]:
        """Returns what has ended since the last call."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._ended.get_nowait())
        self.num_pending -= len(found)
        return found

    def close(self) -> None:
        """Ends the thread after the adapter that it is reading.

        One whose storage hangs cannot be ended, and goes with the process.
        """
        if self._thread is None:
            return
        with contextlib.suppress(queue.Empty):
            while True:
                self._asked.get_nowait()
        self._asked.put(None)
        self._thread.join(CLOSE_SECONDS)
        self._thread = None

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            key, source = asked
            found = isolate(self._describe, source)
            if isinstance(found, Failure):
                is_ours = isinstance(found.error, HooklineError)
                error = str(found.error) if is_ours else found.summary
                self._ended.put(Described(key, None, error))
            else:
                self._ended.put(Described(key, found))
