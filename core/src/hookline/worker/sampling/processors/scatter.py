"""Indexes single logits of several positions at once."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.worker.input_batch import Int64
from hookline.worker.sampling.sampled_positions import SampledPositions

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
        """Names all `token_ids[i]` of the logits' row `indices[i]`, which ascend."""
        counts = np.array([len(ids) for ids in token_ids], np.int64)
        self.positions = torch.from_numpy(np.repeat(indices, counts)).to(device)
        self.token_ids = torch.from_numpy(np.concatenate(token_ids)).to(device)
        is_affected = counts > 0
        order = np.repeat(np.arange(is_affected.sum()), counts[is_affected])
        self._affected = torch.from_numpy(indices[is_affected]).to(device)
        self._order = torch.from_numpy(order).to(device)

    def ban(self, logits: torch.Tensor) -> None:
        """Makes these tokens impossible, except where nothing else is possible."""
        at = (self.positions, self.token_ids)
        before = logits[at]
        logits[at] = NEGATIVE_INFINITY
        is_whole = len(self._affected) == len(logits)
        left = logits if is_whole else logits[self._affected]
        is_empty = left.amax(-1).isneginf()
        if bool(is_empty.any()):
            restored = is_empty[self._order]
            kept = (self.positions[restored], self.token_ids[restored])
            logits[kept] = before[restored]


class CellCache:
    """The cells of the last step's positions, for as long as these do not change.

    A batch that decodes keeps its positions from step to step.
    """

    def __init__(self) -> None:
        self._cells: Cells | None = None
        self._indices: Int64 = np.empty(0, np.int64)
        self._rows: Int64 = self._indices

    def clear(self) -> None:
        """Forgets the cells: the token ids of a row have changed."""
        self._cells = None

    def cells(
        self,
        positions: SampledPositions,
        token_ids: dict[int, Int64],
        device: torch.device,
    ) -> Cells:
        """Returns the cells of the positions' rows.

        Args:
            positions: The positions.
            token_ids: Token ids by batch row, the same since the last `clear`.
            device: Device of the logits.
        """
        if self._cells is None or not self._fits(positions):
            chosen = [token_ids[row] for row in positions.rows.tolist()]
            self._cells = Cells(positions.indices, chosen, device)
            self._indices, self._rows = positions.indices, positions.rows
        return self._cells

    def _fits(self, positions: SampledPositions) -> bool:
        return np.array_equal(self._rows, positions.rows) and np.array_equal(
            self._indices, positions.indices
        )
