"""Asks all front ends at once to send what has happened, and waits for them."""

import threading
import time
from collections.abc import Callable, Iterable

from hookline_observer.messages import Tell, Told

_GRACE = 2.0
"""How long to wait for a reply, in times that a front end may take itself."""

_PAUSE = 0.02
"""Seconds between two tries to send a question for which there was no room."""

Post = Callable[[int, Tell], bool]
"""Sends a message to a front end, which is given by its index; in any thread. Returns
whether there was room for it."""


class _Round:
    """One question to all front ends, and those that have not answered it."""

    def __init__(self, asked: Iterable[int]) -> None:
        self.missing = set(asked)
        self.behind_seconds = 0.0
        self.is_over = threading.Event()

    def answered(self, index: int, behind_seconds: float) -> None:
        self.missing.discard(index)
        self.behind_seconds = max(self.behind_seconds, behind_seconds)
        if not self.missing:
            self.is_over.set()


class AskedFrontEnds:
    """The front ends that can be asked; `ask` is for any thread, the rest for one."""

    def __init__(self, post: Post) -> None:
        """Asks with `post`."""
        self._post = post
        self._lock = threading.Lock()
        self._heard_at: dict[int, float] = {}
        self._rounds: dict[int, _Round] = {}
        self._last = 0

    def heard(self, index: int) -> None:
        """A front end has sent something."""
        with self._lock:
            self._heard_at[index] = time.monotonic()

    def told(self, index: int, told: Told) -> None:
        """A front end has answered, after all that it had to tell."""
        with self._lock:
            if (found := self._rounds.get(told.number)) is not None:
                found.answered(index, told.behind_seconds)

    def left(self, index: int) -> None:
        """A front end has ended, and has nothing more to tell."""
        with self._lock:
            self._heard_at.pop(index, None)
            for each in self._rounds.values():
                each.answered(index, 0.0)

    def ask(self, seconds: float) -> float:
        """Has all front ends tell what has happened, and waits for a limited time.

        Args:
            seconds: How long each may wait for what it does not know yet.

        Returns:
            Age of the oldest news that may be missing: of a front end that does not
            answer, the time since it was heard last. 0 if nothing is missing.
        """
        with self._lock:
            self._last += 1
            number, asked = self._last, tuple(self._heard_at)
            self._rounds[number] = found = _Round(asked)
        tell, ends_at = Tell(number, seconds), time.monotonic() + seconds * _GRACE
        unsent = [index for index in asked if not self._post(index, tell)]
        while asked and (left := ends_at - time.monotonic()) > 0:
            if found.is_over.wait(min(left, _PAUSE) if unsent else left):
                break
            unsent = [index for index in unsent if not self._post(index, tell)]
        with self._lock:
            del self._rounds[number]
            now, missing = time.monotonic(), found.missing
            silent = (now - self._heard_at.get(index, now) for index in missing)
            return max(found.behind_seconds, *silent, 0.0)
