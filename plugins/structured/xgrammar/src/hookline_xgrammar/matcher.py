"""Matches outputs with a grammar by xgrammar."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hookline_grammars.spelling import LongestTokens

_PIECE_BYTES = 16
"""Of a long token that are accepted before the time is looked at."""
_MOST_ACCEPT_NS = 100_000_000
"""Processor time for one token, which usually takes microseconds."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the matchers of one backend share.

    Attributes:
        long_tokens: Bytes of the tokens that are accepted in pieces.
        spelling: Spells what is forced.
        together: The library's matcher of many outputs.
    """

    long_tokens: Mapping[int, bytes]
    spelling: LongestTokens
    together: Any

    @classmethod
    def of(cls, tokens: Sequence[bytes], library: Any) -> "Vocabulary":
        """Sorts a model's tokens."""
        long_tokens = {
            token_id: token
            for token_id, token in enumerate(tokens)
            if len(token) > _PIECE_BYTES
        }
        together = library.BatchGrammarMatcher(max_threads=1)
        return cls(long_tokens, LongestTokens(tokens), together)


class XGrammarMatcher:
    """A `BatchMatcher`.

    In ambiguous grammars each character takes more time than the one before it, and
    nothing interrupts the library. Long tokens are therefore accepted in pieces.
    """

    def __init__(
        self,
        inner: Any,
        vocabulary: Vocabulary,
        stop_token_ids: Collection[int],
        *,
        may_force: bool,
    ) -> None:
        """Follows a grammar.

        Args:
            inner: The library's matcher.
            vocabulary: The tokens.
            stop_token_ids: Tokens that end a complete text, whatever their bytes are.
            may_force: Whether to ask for what is forced, which may have no end.
        """
        self._inner = inner
        self._vocabulary = vocabulary
        self._stops = frozenset(stop_token_ids)
        self._may_force = may_force
        self._pieces: list[int] = []
        self.is_terminated = False

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        if not self._inner.fill_next_token_bitmask(mask.reshape(1, -1)):
            mask[:] = -1

    @classmethod
    def fill_many(
        cls,
        matchers: "Sequence[XGrammarMatcher]",
        masks: npt.NDArray[np.int32],
        rows: Sequence[int],
    ) -> None:
        together = matchers[0]._vocabulary.together  # noqa: SLF001
        inner = [each._inner for each in matchers]  # noqa: SLF001
        together.batch_fill_next_token_bitmask(inner, masks, rows)

    @classmethod
    def accept_many(
        cls, matchers: "Sequence[XGrammarMatcher]", token_ids: Sequence[int]
    ) -> Sequence[bool]:
        accepted = [False] * len(matchers)
        chosen = []
        for at, (matcher, token_id) in enumerate(zip(matchers, token_ids, strict=True)):
            if matcher._is_short(token_id):  # noqa: SLF001
                chosen.append(at)
            else:
                accepted[at] = matcher.accept(token_id)
        found = matchers[0]._vocabulary.together.batch_accept_token(  # noqa: SLF001
            [matchers[at]._inner for at in chosen],  # noqa: SLF001
            [token_ids[at] for at in chosen],
        )
        for at, is_allowed in zip(chosen, found, strict=True):
            accepted[at] = is_allowed
            if is_allowed:
                matchers[at]._pieces.append(1)  # noqa: SLF001
        return accepted

    def _is_short(self, token_id: int) -> bool:
        """Whether a token is text that the library accepts as a whole."""
        return (
            token_id not in self._vocabulary.long_tokens and token_id not in self._stops
        )

    def accept(self, token_id: int) -> bool:
        if token_id in self._stops:
            self.is_terminated = bool(self._inner.accept_token(token_id))
            accepted = int(self.is_terminated)
        elif (text := self._vocabulary.long_tokens.get(token_id)) is not None:
            accepted = self._accept_pieces(text)
        else:
            accepted = int(self._inner.accept_token(token_id))
        if accepted:
            self._pieces.append(accepted)
        return accepted > 0

    def _accept_pieces(self, text: bytes) -> int:
        """Returns the number of pieces; none if the text is not allowed."""
        begun, accepted = time.thread_time_ns(), 0
        for start in range(0, len(text), _PIECE_BYTES):
            if time.thread_time_ns() - begun > _MOST_ACCEPT_NS:
                raise TimeoutError("a token takes too much processor time")
            if not self._inner.accept_string(text[start : start + _PIECE_BYTES]):
                if accepted:
                    self._inner.rollback(accepted)
                return 0
            accepted += 1
        return accepted

    def rollback(self, count: int) -> None:
        pieces = sum(self._pieces[len(self._pieces) - count :])
        del self._pieces[len(self._pieces) - count :]
        self._inner.rollback(pieces)
        self.is_terminated = False  # a stop token can only be the last

    def forced(self, most: int) -> list[int]:
        if not self._may_force or self.is_terminated:
            return []
        text: str = self._inner.find_jump_forward_string()
        return self._vocabulary.spelling.spell(text.encode(), most) if text else []
