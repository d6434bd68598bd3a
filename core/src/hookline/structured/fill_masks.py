"""Fills the masks of several matchers at once, where their kind can."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookline.structured.backend import GrammarMatcher

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
    by_kind: dict[type, list[int]] = defaultdict(list)
    for at, matcher in enumerate(matchers):
        by_kind[type(matcher)].append(at)
    for kind, chosen in by_kind.items():
        if not hasattr(kind, "fill_many"):
            for at in chosen:
                matchers[at].fill(masks[rows[at]])
        elif len(chosen) == len(matchers):
            kind.fill_many(matchers, masks, rows)
        else:
            kind.fill_many(
                [matchers[at] for at in chosen], masks, [rows[at] for at in chosen]
            )
