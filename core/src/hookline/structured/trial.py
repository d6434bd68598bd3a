"""A trial run of a grammar, which finds those that cannot be matched."""

from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from hookline.structured.backend import (
    BackendContext,
    GrammarMatcher,
    RefusedGrammarError,
)

STEPS = 40
_SEED = 20


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
        self._vocab_size = context.vocab_size
        self._lengths = np.zeros(context.vocab_size, np.int32)
        self._lengths[: len(context.tokens)] = [len(each) for each in context.tokens]
        stops = np.array(context.eos_token_ids, np.int64)
        self._stops = stops[stops < context.vocab_size]
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
            allowed = self._allowed()
            if not (way is Way.SAME and last >= 0 and allowed[last]):
                found = self._longest(allowed) if way is Way.LONGEST else allowed
                candidates = np.flatnonzero(found)
                if not len(candidates):
                    return
                last = int(candidates[generator.integers(len(candidates))])
            if not matcher.accept(last):
                raise ValueError(f"token {last} is allowed and not accepted")
            if matcher.is_terminated:
                return

    def _allowed(self) -> npt.NDArray[np.bool_]:
        """Returns which tokens the mask allows, but for those that end the text."""
        octets = self._mask.view(np.uint8)
        bits = np.unpackbits(octets, count=self._vocab_size, bitorder="little")
        bits[self._stops] = 0
        return bits.view(np.bool_)

    def _longest(self, allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Returns which of the allowed tokens are the longest."""
        lengths = np.where(allowed, self._lengths, -1)
        longest: npt.NDArray[np.bool_] = allowed & (lengths == lengths.max())
        return longest


def dead_end(at: int) -> str:
    """Returns why a grammar is refused that allows no token at some point."""
    if at == 0:
        return "no text matches the grammar"
    return f"the grammar has a dead end: no token can follow its first {at} tokens"
