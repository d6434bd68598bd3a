"""Texts of one request that were tokenized before it is prepared."""

from collections.abc import Iterator, Sequence
from typing import Protocol


class TextEncoder(Protocol):
    """Tokenizes texts; `Tokenizer` does, too."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Returns a text's token ids; may raise `RequestError`."""
        ...


class EncodedTexts:
    """Token ids of known texts."""

    def __init__(self) -> None:
        self._token_ids: dict[tuple[str, bool], list[int]] = {}

    def add(
        self,
        texts: Sequence[str],
        token_ids: Sequence[list[int]],
        *,
        add_special_tokens: bool,
    ) -> None:
        """Adds texts with the token ids of each."""
        for text, each in zip(texts, token_ids, strict=True):
            self._token_ids[text, add_special_tokens] = each

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Returns the token ids of a text that was added."""
        return self._token_ids[text, add_special_tokens]


def bad_word_spellings(words: Sequence[str]) -> Iterator[str]:
    """Yields each word as it is at the start of a text, and after a space."""
    for word in words:
        yield word
        yield " " + word.lstrip()
