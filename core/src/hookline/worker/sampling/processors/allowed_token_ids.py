"""Restricts sampling to `allowed_token_ids`."""

import numpy as np
import torch

from hookline.step.plan import AdmittedSequence
from hookline.worker.input_batch import Int64
from hookline.worker.sampling.processors.scatter import NEGATIVE_INFINITY, Cells
from hookline.worker.sampling.sampled_positions import SampledPositions


class AllowedTokenIds:
    """Makes every token impossible that a request does not allow."""

    needs_prepare = False

    def __init__(self) -> None:
        self._allowed: dict[int, Int64] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if (allowed := sequence.params.allowed_token_ids) is None:
            return False
        self._allowed[row] = np.unique(np.array(allowed, np.int64))
        return True

    def release(self, row: int) -> None:
        del self._allowed[row]

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        allowed = [self._allowed[row] for row in positions.rows.tolist()]
        cells = Cells(positions.indices, allowed, logits.device)
        at = (cells.positions, cells.token_ids)
        kept = logits[at]
        logits[torch.from_numpy(positions.indices).to(logits.device)] = (
            NEGATIVE_INFINITY
        )
        logits[at] = kept
