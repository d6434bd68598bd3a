"""Indexes single logits of several positions at once."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import SampledPositions

NEGATIVE_INFINITY = float("-inf")


class Cells:
    """m single logits: a position and a token id each."""

    def __init__(
        self, indices: Int64, token_ids: Sequence[Int64], logits: torch.Tensor
    ) -> None:
        """Names all `token_ids[i]` of row `indices[i]`, for logits with this layout.

        Args:
            indices: [n] rows of the logits, ascending.
            token_ids: n arrays without duplicates.
            logits: [S, vocabulary], whose rows are contiguous.
        """
        device, self._stride = logits.device, logits.stride(0)
        counts = np.array([len(ids) for ids in token_ids], np.int64)
        places = np.repeat(indices * self._stride, counts) + np.concatenate(token_ids)
        self._places = torch.from_numpy(places).to(device)
        is_affected = counts > 0
        order = np.repeat(np.arange(is_affected.sum()), counts[is_affected])
        self._affected = torch.from_numpy(indices[is_affected]).to(device)
        self._order = torch.from_numpy(order).to(device)

    def fit(self, logits: torch.Tensor) -> bool:
        """Returns whether these logits have the layout of the first ones."""
        return logits.stride(0) == self._stride

    def add(self, logits: torch.Tensor, values: torch.Tensor) -> None:
        """Adds [m] numbers."""
        _line(logits).scatter_add_(0, self._places, values)

    def ban(self, logits: torch.Tensor) -> None:
        """Makes these tokens impossible, except where nothing else is possible."""
        line = _line(logits)
        before = line.index_select(0, self._places)
        line.scatter_(0, self._places, NEGATIVE_INFINITY)
        is_whole = len(self._affected) == len(logits)
        left = logits if is_whole else logits[self._affected]
        is_empty = left.amax(-1).isneginf()
        if bool(is_empty.any()):
            restored = is_empty[self._order]
            line[self._places[restored]] = before[restored]


def _line(logits: torch.Tensor) -> torch.Tensor:
    """Returns all logits as one line: kernels are faster with a single index."""
    rows, width = logits.shape
    return logits.as_strided(((rows - 1) * logits.stride(0) + width,), (1,))


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
        logits: torch.Tensor,
    ) -> Cells:
        """Returns the cells of the positions' rows.

        Args:
            positions: The positions.
            token_ids: Token ids by batch row, the same since the last `clear`.
            logits: The logits of all positions.
        """
        cells = self._cells
        if cells is None or not (self._has(positions) and cells.fit(logits)):
            chosen = [token_ids[row] for row in positions.rows.tolist()]
            cells = Cells(positions.indices, chosen, logits)
            self._cells = cells
            self._indices, self._rows = positions.indices, positions.rows
        return cells

    def _has(self, positions: SampledPositions) -> bool:
        return np.array_equal(self._rows, positions.rows) and np.array_equal(
            self._indices, positions.indices
        )
