"""Incremental detokenization that never emits half a character."""

import codecs
from collections.abc import Sequence
from typing import Protocol

from hookline.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
_LONGEST_CHARACTER = 4
"""Length of the longest UTF-8 character in bytes; a token that is not text after this
many tokens will never become text."""
_LONGEST_CONTEXT = 64
"""Tokens without text, such as lone spaces, that the window keeps."""


class Detokenizer(Protocol):
    """Turns the tokens of one completion into text."""

    def push(self, token_ids: Sequence[int]) -> str:
        """Adds tokens and returns the text that they complete."""

    def flush(self) -> str:
        """Returns the rest of the text, with U+FFFD for incomplete characters."""


def make_detokenizer(
    tokenizer: Tokenizer, prompt_token_ids: Sequence[int], *, skip_special_tokens: bool
) -> Detokenizer:
    """Returns the fastest detokenizer that is exact for the tokenizer."""
    if tokenizer.is_byte_level:
        return ByteDetokenizer(tokenizer, skip_special_tokens=skip_special_tokens)
    return WindowDetokenizer(
        tokenizer, prompt_token_ids, skip_special_tokens=skip_special_tokens
    )


class ByteDetokenizer:
    """Detokenizer for byte-level tokenizers: the tokens' bytes are UTF-8 text."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool) -> None:
        self._bytes_of = tokenizer.token_bytes
        self._hidden = tokenizer.special_ids if skip_special_tokens else frozenset()
        self._rest = b""

    def push(self, token_ids: Sequence[int]) -> str:
        if not self._hidden.isdisjoint(token_ids):
            token_ids = [each for each in token_ids if each not in self._hidden]
        encoded = self._rest + b"".join(map(self._bytes_of, token_ids))
        text, used = codecs.utf_8_decode(encoded, "replace")
        self._rest = encoded[used:]
        return text

    def flush(self) -> str:
        return self._rest.decode("utf-8", "replace")


class WindowDetokenizer:
    """Detokenizer for tokenizers whose tokens' text depends on earlier tokens.

    Decodes a short window with and without the new tokens, and returns the difference.
    The window moves on whenever it ends with a complete character.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        *,
        skip_special_tokens: bool,
    ) -> None:
        self._tokenizer = tokenizer
        self._skips = skip_special_tokens
        self._context = list(prompt_token_ids[-_LONGEST_CHARACTER:])
        self._pending: list[int] = []

    def push(self, token_ids: Sequence[int]) -> str:
        text = ""
        for token_id in token_ids:
            if self._skips and self._tokenizer.is_special(token_id):
                continue  # it has no text and changes none
            self._pending.append(token_id)
            new = self._new_text()
            is_whole = not new.endswith(REPLACEMENT)
            if is_whole or len(self._pending) > _LONGEST_CHARACTER:
                text += self._accept(new)
        return text

    def flush(self) -> str:
        return self._accept(self._new_text()) if self._pending else ""

    def _new_text(self) -> str:
        before = self._decode(self._context)
        return self._decode([*self._context, *self._pending])[len(before) :]

    def _accept(self, text: str) -> str:
        if text:
            self._context = self._pending
        else:
            self._context = [*self._context, *self._pending][-_LONGEST_CONTEXT:]
        self._pending = []
        return text

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skips)
