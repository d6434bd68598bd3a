"""A trial run of a grammar, which finds those that cannot be matched."""

from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from hookline_grammars.backend import (
    BackendContext,
    GrammarMatcher,
    RefusedGrammarError,
)

STEPS = 40
_SEED = 20
_MOST_WORDS = 64
"""Maximum number of a mask's words of 32 tokens that a random token is chosen from."""


class DeadEndError(RefusedGrammarError):
    """Nothing matches the grammar, or no token can follow what it has allowed."""


class Way(Enum):
    """How a trial chooses among the tokens that a grammar allows."""

    SAME = auto()
    """The previous token again, which makes most ambiguous grammars explode."""
    LONGEST = auto()
    """One of the longest: they bring many characters at once."""
    RANDOM = auto()


class Trial:
    """Walks through grammars of one vocabulary.

    Attributes:
        stop_token_ids: Tokens that end a text, for the matchers to walk with.
    """

    def __init__(self, context: BackendContext) -> None:
        """Prepares for matchers whose backend was made of a context."""
        self.stop_token_ids = context.eos_token_ids or (0,)
        self._lengths = np.zeros(-(-context.vocab_size // 32) * 32, np.int32)
        self._lengths[: len(context.tokens)] = [len(each) for each in context.tokens]
        is_text = np.arange(len(self._lengths)) < context.vocab_size
        is_text[[each for each in context.eos_token_ids if each < len(is_text)]] = False
        self._texts = _packed(is_text)
        lengths = np.unique(self._lengths)[::-1]
        self._by_length = [_packed(self._lengths == length) for length in lengths]
        self._mask = np.zeros(-(-context.vocab_size // 32), np.int32)

    def walk(self, matcher: GrammarMatcher, way: Way) -> None:
        """Accepts some tokens that a grammar allows, and fills the mask before each.

        Does not end the text while another token is allowed. The caller limits its
        time.

        Args:
            matcher: A matcher at the start of a text.
            way: Which token to accept; any, where the grammar does not allow that one.

        Raises:
            DeadEndError: Nothing matches the grammar, or it has a dead end.
        """
        generator = np.random.default_rng(_SEED)
        last = -1
        for at in range(STEPS):
            self._mask[:] = 0
            matcher.fill(self._mask)
            if not self._mask.any():
                raise DeadEndError(dead_end(at))
            self._mask &= self._texts
            if not (way is Way.SAME and last >= 0 and self._is_allowed(last)):
                candidates = self._candidates(way, generator)
                if not len(candidates):
                    return
                last = int(candidates[generator.integers(len(candidates))])
            if not matcher.accept(last):
                raise ValueError(f"token {last} is allowed and not accepted")
            if matcher.is_terminated:
                return

    def _is_allowed(self, token_id: int) -> bool:
        return bool(int(self._mask[token_id >> 5]) >> (token_id & 31) & 1)

    def _candidates(
        self, way: Way, generator: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Returns allowed tokens to choose from.

        Where much of the vocabulary is allowed, a part of it is enough for a random
        choice, and the longest tokens are found by length.
        """
        words = np.flatnonzero(self._mask)
        if len(words) > _MOST_WORDS and way is Way.LONGEST:
            longest = (self._mask & each for each in self._by_length)
            return _token_ids(next(mask for mask in longest if mask.any()))
        if len(words) > _MOST_WORDS:
            start = int(generator.integers(len(words) - _MOST_WORDS))
            words = words[start : start + _MOST_WORDS]
        found = _token_ids(self._mask, words)
        if way is Way.LONGEST and len(found):
            lengths = self._lengths[found]
            found = found[lengths == lengths.max()]
        return found


def _packed(is_allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    return np.packbits(is_allowed, bitorder="little").view(np.int32)


def _token_ids(
    mask: npt.NDArray[np.int32], words: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Returns the tokens that a mask allows, or those that some of its words do."""
    if words is None:
        words = np.flatnonzero(mask)
    bits = np.unpackbits(mask[words].view(np.uint8), bitorder="little")
    places = np.flatnonzero(bits)
    found: npt.NDArray[np.int64] = (words[places >> 5] << 5) + (places & 31)
    return found


def dead_end(at: int) -> str:
    """Returns why a grammar is refused that allows no token at some point."""
    if at == 0:
        return "no text matches the grammar"
    return f"the grammar has a dead end: no token can follow its first {at} tokens"
