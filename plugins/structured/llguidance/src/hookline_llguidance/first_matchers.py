"""Matchers at the start of their texts, of which those of requests are copies."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from llguidance import LLMatcher

_KEPT_BYTES = 16 * 2**20
"""Maximum size of the kept grammars, with their tables."""
_TABLES_BYTES = 2**18
"""What tables typically take once texts have been matched: from 50 kB to 3 MB."""
_MOST_USED = 4096
"""Latest grammars that are known to have been used."""
_QUICK_SECONDS = 0.005
"""Time in which a step may make a matcher."""


class _First(NamedTuple):
    """A matcher, and whether it is made in no time."""

    matcher: LLMatcher
    is_quick: bool


class FirstMatchers:
    """Keeps matchers of grammars that are likely to come again.

    All copies of a matcher share its tables, which grow with the texts that they match,
    to megabytes for a grammar of a hundred bytes; the library does not tell by how
    much. So the tables of a grammar that is used for the first time end with its
    requests, and only grammars that come again keep theirs.
    """

    def __init__(self, make: Callable[[bytes], LLMatcher]) -> None:
        """Keeps what `make` makes of compiled grammars."""
        self._make = make
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, _First] = OrderedDict()
        self._used: OrderedDict[int, None] = OrderedDict()

    def get(self, data: bytes) -> LLMatcher:
        """Returns a matcher of a compiled grammar; it is to be copied."""
        with self._lock:
            if (known := self._kept.get(data)) is not None:
                self._kept.move_to_end(data)
                return known.matcher
        begun = time.thread_time()
        made = self._make(data)
        is_quick = time.thread_time() - begun < _QUICK_SECONDS
        with self._lock:
            self._kept[data] = _First(made, is_quick)
            while self._num_bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made

    def used(self, data: bytes) -> None:
        """Notes that a copy begins to match a text."""
        key = hash(data)
        with self._lock:
            is_first = key not in self._used
            self._used[key] = None
            self._used.move_to_end(key)
            if len(self._used) > _MOST_USED:
                self._used.popitem(last=False)
            if is_first and (known := self._kept.get(data)) and known.is_quick:
                del self._kept[data]

    @property
    def _num_bytes(self) -> int:
        return sum(len(data) + _TABLES_BYTES for data in self._kept)
