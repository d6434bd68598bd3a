"""Adds `logit_bias` to the logits."""

import numpy as np
import numpy.typing as npt
import torch

from hookline.step.plan import AdmittedSequence
from hookline.worker.input_batch import Int64
from hookline.worker.sampling.processors.scatter import Cells
from hookline.worker.sampling.sampled_positions import SampledPositions


class LogitBias:
    """Adds each request's biases to the logits of its tokens."""

    needs_prepare = False

    def __init__(self) -> None:
        self._token_ids: dict[int, Int64] = {}
        self._biases: dict[int, npt.NDArray[np.float32]] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if not (bias := sequence.params.logit_bias):
            return False
        self._token_ids[row] = np.fromiter(bias, np.int64, len(bias))
        self._biases[row] = np.fromiter(bias.values(), np.float32, len(bias))
        return True

    def release(self, row: int) -> None:
        del self._token_ids[row], self._biases[row]

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        rows = positions.rows.tolist()
        token_ids = [self._token_ids[row] for row in rows]
        cells = Cells(positions.indices, token_ids, logits.device)
        biases = np.concatenate([self._biases[row] for row in rows])
        at = (cells.positions, cells.token_ids)
        logits[at] += torch.from_numpy(biases).to(logits.device)
