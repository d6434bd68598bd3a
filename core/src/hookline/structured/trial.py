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


class Way(Enum):
    """How a trial chooses among the tokens that a grammar allows."""

    SAME = auto()
    """The previous token again, which makes most ambiguous grammars explode."""
    LONGEST = auto()
    """One of the longest: they bring many characters at once."""
    RANDOM = auto()


def walk(matcher: GrammarMatcher, context: BackendContext, way: Way) -> None:
    """Accepts some tokens that the grammar allows, and fills the mask before each.

    Does not end the text while another token is allowed. The caller limits its time.

    Args:
        matcher: A matcher at the start of a text.
        context: The context of its backend.
        way: Which token to accept; any, where the grammar does not allow that one.

    Raises:
        RefusedGrammarError: Nothing matches the grammar, or it has a dead end.
    """
    lengths = np.array([len(token) for token in context.tokens], np.int32)
    mask = np.zeros(-(-context.vocab_size // 32), np.int32)
    stops = np.array(context.eos_token_ids, np.int64)
    generator = np.random.default_rng(_SEED)
    last = -1
    for at in range(STEPS):
        mask[:] = 0
        matcher.fill(mask)
        if not mask.any():
            raise RefusedGrammarError(dead_end(at))
        allowed = np.setdiff1d(_indices(mask, context.vocab_size), stops)
        if not len(allowed):
            return
        if way is Way.LONGEST:
            known = allowed[allowed < len(lengths)]
            allowed = (
                known[lengths[known] == lengths[known].max()] if len(known) else allowed
            )
        if not (way is Way.SAME and last in allowed):
            last = int(generator.choice(allowed))
        if not matcher.accept(last):
            raise ValueError(f"token {last} is allowed and not accepted")
        if matcher.is_terminated:
            return


def dead_end(at: int) -> str:
    """Returns why a grammar is refused that allows no token at some point."""
    if at == 0:
        return "no text matches the grammar"
    return f"the grammar has a dead end: no token can follow its first {at} tokens"


def _indices(mask: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    bits = np.unpackbits(mask.view(np.uint8), count=count, bitorder="little")
    return np.flatnonzero(bits)
