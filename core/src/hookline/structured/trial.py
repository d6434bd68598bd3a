"""Follows a grammar for a while, to see that it can be followed."""

import numpy as np
import numpy.typing as npt

from hookline.structured.backend import BackendContext, GrammarMatcher

STEPS = 40
_SEED = 20


def walk(matcher: GrammarMatcher, context: BackendContext, *, repeats: bool) -> None:
    """Accepts some tokens that the grammar allows, and fills the mask before each.

    Avoids the end of the text as long as there is another way. Its time is limited from
    outside.

    Args:
        matcher: A matcher at the start of a text.
        context: What its backend was made of.
        repeats: Whether to prefer the token that came last, which is what explodes most
            ambiguous grammars; otherwise each token is drawn at random.
    """
    mask = np.zeros(-(-context.vocab_size // 32), np.int32)
    stops = np.array(context.eos_token_ids, np.int64)
    generator = np.random.default_rng(_SEED)
    last = -1
    for _ in range(STEPS):
        mask[:] = 0
        matcher.fill(mask)
        allowed = np.setdiff1d(_indices(mask, context.vocab_size), stops)
        if not len(allowed):
            return
        if not (repeats and last in allowed):
            last = int(generator.choice(allowed))
        if not matcher.accept(last):
            raise ValueError(f"token {last} is allowed and not accepted")
        if matcher.is_terminated:
            return


def _indices(mask: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    bits = np.unpackbits(mask.view(np.uint8), count=count, bitorder="little")
    return np.flatnonzero(bits)
