"""Fills the masks of positions behind a request's drafts."""

import numpy as np
import numpy.typing as npt

from hookline.engine.worker.sampling.logits_processor import SampledPositions
from hookline_grammars.backend import GrammarMatcher, RefusedGrammarError

Masks = npt.NDArray[np.int32]

DEAD_END = "no token can continue this output as its grammar requires"


def fill_or_refuse(matcher: GrammarMatcher, mask: Masks) -> None:
    """Fills one mask; raises `RefusedGrammarError` if it allows nothing."""
    matcher.fill(mask)
    if not mask.any():  # anything could be sampled otherwise
        raise RefusedGrammarError(DEAD_END)


def fill_behind(matcher: GrammarMatcher, part: SampledPositions, masks: Masks) -> None:
    """Fills the masks behind each of a request's drafts, as far as they are allowed.

    What is sampled behind a draft that the grammar forbids is never kept.

    Args:
        matcher: The request's matcher, after the tokens before its first position; it
            stands there afterwards, too.
        part: The m positions of the request.
        masks: [m, words] masks; the first one, before all drafts, stays.

    Raises:
        RefusedGrammarError: A limit is exceeded, or nothing can follow.
        TimeoutError: A draft takes too much processor time.
    """
    if part.nodes is None:
        _fill_chain(matcher, part, masks)
    else:
        _fill_tree(matcher, part, masks)


def _fill_chain(matcher: GrammarMatcher, part: SampledPositions, masks: Masks) -> None:
    drafts = part.tokens(len(part) - 1)[part.ends[0] :].tolist()
    passed = 0
    for token_id, mask in zip(drafts, masks[1:], strict=True):
        if not matcher.accept(token_id):
            break
        passed += 1
        if matcher.is_terminated:
            break
        fill_or_refuse(matcher, mask)
    if passed:
        matcher.rollback(passed)


def _fill_tree(matcher: GrammarMatcher, part: SampledPositions, masks: Masks) -> None:
    """Walks to each node by itself, if the grammar allows the path to it."""
    root = int(part.ends[0])
    for at in range(1, len(part)):
        path, passed = part.tokens(at)[root:].tolist(), 0
        for token_id in path:
            if matcher.is_terminated or not matcher.accept(token_id):
                break
            passed += 1
        if passed == len(path) and not matcher.is_terminated:
            fill_or_refuse(matcher, masks[at])
        if passed:
            matcher.rollback(passed)
