"""Follows a grammar for a while, to see that it can be followed."""

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
    """Which of the tokens that a grammar allows comes next."""

    SAME = auto()
    """The one that came last, which is what explodes most ambiguous grammars."""
    LONGEST = auto()
    """One of the longest: they bring many characters at once."""
    RANDOM = auto()


def walk(matcher: GrammarMatcher, context: BackendContext, way: Way) -> None:
    """Accepts some tokens that the grammar allows, and fills the mask before each.

    Avoids the end of the text as long as there is another way. Its time is limited from
    outside.

    Args:
        matcher: A matcher at the start of a text.
        context: What its backend was made of.
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
    """Returns the reason against a grammar that allows no token at a place."""
    if at == 0:
        return "no text matches the grammar"
    return f"the grammar has a dead end: no token can follow its first {at} tokens"


def _indices(mask: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    bits = np.unpackbits(mask.view(np.uint8), count=count, bitorder="little")
    return np.flatnonzero(bits)
