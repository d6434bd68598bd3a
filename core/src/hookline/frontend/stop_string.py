"""A stop string, found in a text that comes in pieces."""


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
