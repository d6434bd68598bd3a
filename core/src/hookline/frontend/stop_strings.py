"""Searches a text for stop strings while it is written."""

from collections.abc import Callable, Iterable


class StopString:
    """Matches one string in linear time (Knuth, Morris & Pratt 1977); immutable.

    Attributes:
        text: The string.
    """

    __slots__ = ("_borders", "text")

    def __init__(self, text: str) -> None:
        """Prepares the search for a text that is not empty."""
        self.text = text
        self._borders = [0]
        matched = 0
        for char in text[1:]:
            matched = self._next(matched, char)
            self._borders.append(matched)

    def search(self, matched: int, piece: str) -> tuple[int, int | None]:
        """Searches the next piece of a text.

        Args:
            matched: Length of the string's beginning with which the text before ends; 0
                at first.
            piece: The next piece.

        Returns:
            `matched` for the next piece, and where in this one the string's first
            occurrence ends; None if there is none.
        """
        if not matched and self.text[0] not in piece:
            return 0, None
        end = None
        for place, char in enumerate(piece, 1):
            matched = self._next(matched, char)
            if matched == len(self.text):
                end = end or place
                matched = self._borders[-1]
        return matched, end

    def _next(self, matched: int, char: str) -> int:
        while matched and self.text[matched] != char:
            matched = self._borders[matched - 1]
        return matched + (self.text[matched] == char)


class StopSearch:
    """Cuts a text at the first of several stop strings.

    Attributes:
        found: The stop string that ended the text; None if none has.
        held: Text held back because it may be the beginning of a stop string.
    """

    def __init__(self, stop: Iterable[str], *, include_stop: bool) -> None:
        self._stop = list(map(StopString, stop))
        self._include_stop = include_stop
        self._matched = [0] * len(self._stop)
        self.found: str | None = None
        self.held = ""

    def push(self, new: str, *, can_stop: bool) -> str:
        """Adds text, whose stop strings may not count; returns what is sure."""
        hits, text = [], self.held + new
        for index, stop in enumerate(self._stop):
            self._matched[index], end = stop.search(self._matched[index], new)
            if end is not None:
                hits.append((len(self.held) + end - len(stop.text), stop.text))
        if hits and can_stop:
            start, self.found = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
            self.held = ""
            return text[: start + len(self.found) * self._include_stop]
        sure = len(text) - max(self._matched)
        self.held = text[sure:]
        return text[:sure]

    def flush(self, *, can_stop: bool) -> str:  # noqa: ARG002
        """Returns the rest of a text that has ended without a stop string."""
        return self.held


StopScope = Callable[..., StopSearch]
"""Makes a search, with its arguments, that looks only at a part of the text."""
