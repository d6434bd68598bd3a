"""The least loaded of several, where equals take turns."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """Chooses among a fixed number of candidates; it remembers their last choices."""

    def __init__(self) -> None:
        self._chosen_at: dict[T, int] = {}
        self._choices = 0

    def least(self, candidates: Sequence[T], load: Callable[[T], Any]) -> T:
        """Returns the candidate of least load; of equal ones, that chosen longest ago.

        Args:
            candidates: At least one.
            load: Returns a candidate's load; anything that can be ordered.
        """
        return self.chosen(
            min(candidates, key=lambda each: (load(each), self._chosen_at.get(each, 0)))
        )

    def next(self, candidates: Sequence[T]) -> T:
        """Returns the candidate that was chosen longest ago."""
        return self.least(candidates, lambda _: 0)

    def chosen(self, candidate: T) -> T:
        """Notes a choice, which someone else may have made."""
        self._choices += 1
        self._chosen_at[candidate] = self._choices
        return candidate
