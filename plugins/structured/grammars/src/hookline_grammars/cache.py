"""A bounded cache of compiled grammars and refusals."""

from collections import OrderedDict

from hookline_grammars.compiled import CompiledGrammar

_ENTRY_BYTES = 256
"""Approximate size of an entry without its data or its reason."""

Outcome = CompiledGrammar | str
"""A compiled grammar, or why it cannot be compiled."""


class GrammarCache:
    """An LRU cache of outcomes, by the keys of their specifications.

    Refusals are cached, too, so that a client that retries does not cost a second of
    processor time each time.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._outcomes: OrderedDict[bytes, Outcome] = OrderedDict()
        self.num_bytes = 0

    def get(self, key: bytes) -> Outcome | None:
        """Returns the outcome and marks it as most recently used, or returns None."""
        if (outcome := self._outcomes.get(key)) is not None:
            self._outcomes.move_to_end(key)
        return outcome

    def put(self, key: bytes, outcome: Outcome) -> None:
        """Adds an outcome; one that is larger than the cache is not kept."""
        self._remove(key)
        size = _size(outcome)
        if size > self._max_bytes:
            return
        self._outcomes[key] = outcome
        self.num_bytes += size
        while self.num_bytes > self._max_bytes:
            self._remove(next(iter(self._outcomes)))

    def _remove(self, key: bytes) -> None:
        if (outcome := self._outcomes.pop(key, None)) is not None:
            self.num_bytes -= _size(outcome)


def _size(outcome: Outcome) -> int:
    content = outcome if isinstance(outcome, str) else outcome.data
    return _ENTRY_BYTES + len(content)
