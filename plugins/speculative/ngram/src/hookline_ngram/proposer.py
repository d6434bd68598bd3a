"""Drafts the tokens that followed an earlier occurrence of a text's suffix.

Prompt lookup (Saxena 2023): drafts need no model, so they cost almost nothing, and they
are often right when outputs repeat their prompts, as in code editing.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hookline_drafting import DraftRequest, Drafts, ProposerCapabilities
from hookline_ngram.options import NgramOptions
from hookline_ngram.suffix_index import SuffixIndex


class NgramProposer:
    """Drafts by prompt lookup, with an index per running request."""

    capabilities = ProposerCapabilities()

    def __init__(self, options: NgramOptions) -> None:
        self._options = options
        self._indices: dict[int, SuffixIndex] = {}

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        """Returns `max_drafts` drafts per request, or none without a match."""
        return [self._draft(request) for request in requests]

    def release(self, request_ids: Sequence[int]) -> None:
        """Drops the requests' indices."""
        for request_id in request_ids:
            self._indices.pop(request_id, None)

    def _draft(self, request: DraftRequest) -> Drafts:
        index = self._indices.get(request.request_id)
        if index is None:
            index = self._indices[request.request_id] = SuffixIndex(
                self._options.prompt_lookup_min,
                self._options.prompt_lookup_max,
                keeps_first=self._options.match == "first",
            )
        found = index.find(request.token_ids)
        if not found:
            return Drafts(token_ids=())
        return Drafts(
            token_ids=_following(request.token_ids, found, request.max_drafts)
        )


def _following(
    token_ids: npt.NDArray[np.int32], start: int, count: int
) -> npt.NDArray[np.int32]:
    """Returns the following tokens; beyond the end, the text repeats from `start`."""
    period = len(token_ids) - start
    if count <= period:
        return token_ids[start : start + count].copy()
    return np.resize(token_ids[start:], count)
