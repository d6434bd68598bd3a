"""Values that the completions of one prompt share."""

from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
V = TypeVar("V")


class Shared(Generic[S, V]):
    """Makes a value of a source once for completions that have the same source.

    Completions of a prompt are admitted one after another, so the last value is enough.
    """

    def __init__(self, make: Callable[[S], V]) -> None:
        self._make = make
        self._last: tuple[S, V] | None = None

    def of(self, source: S) -> V:
        """Returns the value of this very object; it must not change."""
        if self._last is None or self._last[0] is not source:
            self._last = (source, self._make(source))
        return self._last[1]

    def clear(self) -> None:
        """Forgets the last value."""
        self._last = None
