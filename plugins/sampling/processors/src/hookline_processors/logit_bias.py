"""Adds `logit_bias` to the logits."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence
from hookline_processors.scatter import CellCache, Cells
from hookline_processors.shared import Shared

Float32 = npt.NDArray[np.float32]


class LogitBias:
    """Adds each request's biases to the logits of its tokens."""

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        del context
        self._token_ids: dict[int, Int64] = {}
        self._biases: dict[int, Float32] = {}
        self._shared = Shared(_columns)
        self._cache = CellCache()
        self._last: tuple[Cells, torch.Tensor] | None = None

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if not (bias := sequence.params.logit_bias):
            return False
        self._token_ids[row], self._biases[row] = self._shared.of(bias)
        self._forget()
        return True

    def release(self, row: int) -> None:
        del self._token_ids[row], self._biases[row]
        self._forget()
        if not self._biases:
            self._shared.clear()

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        cells = self._cache.cells(positions, self._token_ids, logits)
        if self._last is None or self._last[0] is not cells:
            rows = positions.rows.tolist()
            biases = np.concatenate([self._biases[row] for row in rows])
            self._last = cells, torch.from_numpy(biases).to(logits.device)
        cells.add(logits, self._last[1])

    def _forget(self) -> None:
        self._cache.clear()
        self._last = None


def _columns(bias: Mapping[int, float]) -> tuple[Int64, Float32]:
    return (
        np.fromiter(bias, np.int64, len(bias)),
        np.fromiter(bias.values(), np.float32, len(bias)),
    )
