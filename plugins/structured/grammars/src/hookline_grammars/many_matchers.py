"""Uses many matchers at once, where their kind can."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hookline_grammars.backend import GrammarMatcher

if TYPE_CHECKING:  # what only compiles need not load numpy
    import numpy as np
    import numpy.typing as npt


def fill_masks(
    matchers: Sequence[GrammarMatcher],
    masks: "npt.NDArray[np.int32]",
    rows: Sequence[int],
) -> None:
    """Writes which tokens may come next for each of n matchers.

    Args:
        matchers: The matchers; those whose class has `fill_many` fill together.
        masks: [most, ⌈vocabulary / 32⌉] int32; see `GrammarMatcher.fill`.
        rows: [n] row of `masks` for each matcher.

    Raises:
        RefusedGrammarError: See `GrammarMatcher.fill`; any mask may be unfilled then.
    """
    for kind, chosen in _by_kind(matchers):
        if not hasattr(kind, "fill_many"):
            for at in chosen:
                matchers[at].fill(masks[rows[at]])
        elif len(chosen) == len(matchers):
            kind.fill_many(matchers, masks, rows)
        else:
            kind.fill_many(
                [matchers[at] for at in chosen], masks, [rows[at] for at in chosen]
            )


def accept_tokens(
    matchers: Sequence[GrammarMatcher], token_ids: Sequence[int]
) -> Sequence[bool]:
    """Goes on by a token with each of n matchers.

    Args:
        matchers: The matchers; those whose class has `accept_many` go on together.
        token_ids: [n] the tokens.

    Returns:
        [n] whether each allows its token; it stays where it was if not.

    Raises:
        RefusedGrammarError: See `GrammarMatcher.accept`, likewise `TimeoutError`; how
            far each matcher has come is unknown then.
    """
    accepted = [False] * len(matchers)
    for kind, chosen in _by_kind(matchers):
        if not hasattr(kind, "accept_many"):
            for at in chosen:
                accepted[at] = matchers[at].accept(token_ids[at])
            continue
        found = kind.accept_many(
            [matchers[at] for at in chosen], [token_ids[at] for at in chosen]
        )
        for at, is_allowed in zip(chosen, found, strict=True):
            accepted[at] = is_allowed
    return accepted


def _by_kind(
    matchers: Sequence[GrammarMatcher],
) -> Iterable[tuple[type, Sequence[int]]]:
    """Returns the classes of matchers, and the indices of their matchers."""
    kinds = {type(matcher) for matcher in matchers}
    if len(kinds) == 1:
        return ((kinds.pop(), range(len(matchers))),)
    by_kind: dict[type, list[int]] = defaultdict(list)
    for at, matcher in enumerate(matchers):
        by_kind[type(matcher)].append(at)
    return by_kind.items()
