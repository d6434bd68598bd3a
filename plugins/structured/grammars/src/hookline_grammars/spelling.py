"""Spells a text with the longest tokens."""

from collections.abc import Sequence


class LongestTokens:
    """Finds tokens that spell bytes; the model may prefer other ones."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Remembers the first token of each spelling."""
        self._ids: dict[bytes, int] = {}
        for token_id, token in enumerate(tokens):
            if token:
                self._ids.setdefault(token, token_id)
        self._longest = max(map(len, self._ids), default=0)

    def spell(self, text: bytes, most: int) -> list[int]:
        """Returns up to `most` token ids; fewer where no token fits."""
        found: list[int] = []
        start = 0
        while start < len(text) and len(found) < most:
            for end in range(min(len(text), start + self._longest), start, -1):
                if (token_id := self._ids.get(text[start:end])) is not None:
                    found.append(token_id)
                    start = end
                    break
            else:
                break
        return found
