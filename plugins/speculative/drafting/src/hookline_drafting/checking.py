"""Checks what a proposer returned before it reaches a step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hookline_drafting.proposer import DraftRequest, Drafts, FloatMatrix
from hookline_metrics.drafts import FailureCause

_TOLERANCE = 1e-3
"""Tolerance for a sum of probabilities; rounding in float32 stays far below it."""


@dataclass(frozen=True, slots=True)
class CheckedDrafts:
    """Drafts that can be verified.

    Attributes:
        token_ids: Ids within the vocabulary, at most `max_drafts`.
        probabilities: [drafts, vocabulary] float32, each row a distribution in which
            its draft is possible; None for deterministic drafts.
        flaw: Why what was proposed cannot be drafts; empty if it can.
    """

    token_ids: list[int]
    probabilities: npt.NDArray[np.float32] | None = None
    flaw: str = ""


class DraftError(Exception):
    """Drafts that cannot be verified.

    Attributes:
        cause: The cause, for its metric.
    """

    def __init__(self, cause: FailureCause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


def check_count(proposed: object, num_requests: int) -> list[object]:
    """Returns one answer for each request; raises `DraftError` otherwise."""
    if not isinstance(proposed, Sequence) or len(proposed) != num_requests:
        raise DraftError(
            FailureCause.MALFORMED, f"not a sequence of {num_requests} drafts"
        )
    return list(proposed)


def check_drafts(
    request: DraftRequest, drafts: object, vocab_size: int, *, is_tree: bool = False
) -> CheckedDrafts:
    """Returns the checked drafts of a request; raises `DraftError` if malformed."""
    if not isinstance(drafts, Drafts):
        raise DraftError(FailureCause.MALFORMED, f"{type(drafts)} is not Drafts")
    if len(drafts.token_ids) > request.max_drafts:
        raise DraftError(
            FailureCause.TOO_MANY,
            f"{len(drafts.token_ids)} drafts; max_drafts is {request.max_drafts}",
        )
    if not len(drafts.token_ids):
        return CheckedDrafts([])
    tokens = np.asarray(drafts.token_ids)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise DraftError(FailureCause.MALFORMED, "drafts must be integers")
    token_ids: list[int] = tokens.tolist()
    if min(token_ids) < 0 or max(token_ids) >= vocab_size:
        raise DraftError(
            FailureCause.OUT_OF_VOCABULARY,
            f"a draft is outside the vocabulary of {vocab_size} tokens",
        )
    if drafts.probabilities is None:
        return CheckedDrafts(token_ids)
    if is_tree:
        raise DraftError(
            FailureCause.MALFORMED, "drafts of a tree must not have probabilities"
        )
    return CheckedDrafts(
        token_ids, _distributions(drafts.probabilities, token_ids, vocab_size)
    )


def _distributions(
    probabilities: FloatMatrix, token_ids: list[int], vocab_size: int
) -> npt.NDArray[np.float32]:
    """Returns a copy, because the proposer may reuse its memory."""
    rows = np.array(probabilities, np.float32)
    if rows.shape != (len(token_ids), vocab_size):
        raise DraftError(
            FailureCause.MALFORMED,
            f"probabilities of shape {rows.shape} for {len(token_ids)} drafts",
        )
    sums = rows.sum(-1, dtype=np.float64)
    # Comparisons with NaN are false, so the conditions are those that must hold.
    if not ((rows >= 0).all() and (np.abs(sums - 1) <= _TOLERANCE).all()):
        raise DraftError(
            FailureCause.MALFORMED, "a row is not a probability distribution"
        )
    if not rows[np.arange(len(rows)), token_ids].all():
        raise DraftError(FailureCause.MALFORMED, "a draft has probability 0")
    return rows
