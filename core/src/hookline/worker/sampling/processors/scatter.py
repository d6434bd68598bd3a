"""Indexes single logits of several positions at once."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.worker.input_batch import Int64

NEGATIVE_INFINITY = float("-inf")


class Cells:
    """m single logits: a position and a token id each.

    Attributes:
        positions: [m] int64 rows of the logits, on their device.
        token_ids: [m] int64 likewise.
    """

    def __init__(
        self, indices: Int64, token_ids: Sequence[Int64], device: torch.device
    ) -> None:
        """Names all `token_ids[i]` of the logits' row `indices[i]`."""
        self._repeated = np.repeat(indices, [len(ids) for ids in token_ids])
        self.positions = torch.from_numpy(self._repeated).to(device)
        self.token_ids = torch.from_numpy(np.concatenate(token_ids)).to(device)

    def ban(self, logits: torch.Tensor) -> None:
        """Makes these tokens impossible, except where nothing else is possible."""
        at = (self.positions, self.token_ids)
        before = logits[at]
        logits[at] = NEGATIVE_INFINITY
        affected, inverse = np.unique(self._repeated, return_inverse=True)
        left = logits
        if len(affected) < len(logits):
            left = logits[torch.from_numpy(affected).to(logits.device)]
        is_empty = left.amax(-1).isneginf()
        if bool(is_empty.any()):
            if len(affected) == len(logits):
                restored = is_empty[self.positions]
            else:
                restored = is_empty[torch.from_numpy(inverse).to(logits.device)]
            kept = (self.positions[restored], self.token_ids[restored])
            logits[kept] = before[restored]
