"""Tokenizes, and stops early where a text has far too many tokens; in text processes.

Only `tokenizers` is imported here, not `transformers`: a text process has to start
quickly.
"""

from array import array

from tokenizers import Tokenizer

MIN_SLICE_CHARS = 65_536
SLICE_CHARS_PER_TOKEN = 8
"""Length of a slice in characters for each token of use."""
CERTAIN_FACTOR = 2
"""How many times the tokens of use the first slices must have for a text to be refused.

Cutting a text changes a few tokens at the cut, never half of all.
"""


class TooManyTokensError(Exception):
    """A text has more tokens than are of use."""


class Encoder:
    """A tokenizer that tokenizes as `transformers` would."""

    def __init__(self, tokenizer_json: str) -> None:
        self._inner = Tokenizer.from_str(tokenizer_json)
        # As `transformers` does unless it is asked to truncate or pad.
        self._inner.no_truncation()
        self._inner.no_padding()

    def encode(
        self, text: str, *, add_special_tokens: bool, max_tokens: int | None
    ) -> bytes:
        """Returns the token ids as unsigned integers of four bytes.

        The work is bounded by `max_tokens`, not by the length of the text.

        Raises:
            TooManyTokensError: The text has clearly more than `max_tokens`.
        """
        if max_tokens is not None:
            self._check(text, max_tokens)
        token_ids = self._ids(text, add_special_tokens=add_special_tokens)
        return array("I", token_ids).tobytes()

    def _check(self, text: str, max_tokens: int) -> None:
        step = max(MIN_SLICE_CHARS, SLICE_CHARS_PER_TOKEN * max_tokens)
        if len(text) <= step:
            return
        count = 0
        for start in range(0, len(text), step):
            part = text[start : start + step]
            count += len(self._ids(part, add_special_tokens=False))
            if count > CERTAIN_FACTOR * max_tokens:
                raise TooManyTokensError

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        (encoding,) = self._inner.encode_batch_fast(
            [text], add_special_tokens=add_special_tokens
        )
        return list(encoding.ids)
