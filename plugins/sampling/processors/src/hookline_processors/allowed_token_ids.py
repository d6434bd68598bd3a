"""Restricts sampling to `allowed_token_ids`."""

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence
from hookline_processors.scatter import NEGATIVE_INFINITY
from hookline_processors.shared import Shared

Bits = npt.NDArray[np.uint8]


class AllowedTokenIds:
    """Makes every token impossible that a request does not allow.

    Keeps a bit per token and batch row, so that a step's cost depends only on the
    vocabulary, not on the length of the lists.
    """

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        rows, self._vocab_size = context.max_num_seqs, context.vocab_size
        # Pages of rows that never restrict are never touched.
        self._banned: Bits = np.zeros((rows, -(-self._vocab_size // 8)), np.uint8)
        self._shared = Shared(self._bits)
        self._num_rows = 0

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if (allowed := sequence.params.allowed_token_ids) is None:
            return False
        self._banned[row] = self._shared.of(allowed)
        self._num_rows += 1
        return True

    def release(self, row: int) -> None:  # noqa: ARG002 - the next one overwrites it
        self._num_rows -= 1
        if not self._num_rows:
            self._shared.clear()

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        banned = self._mask(positions, logits.device)
        if len(positions) == len(logits):
            logits.masked_fill_(banned, NEGATIVE_INFINITY)
            return
        at = torch.from_numpy(positions.indices).to(logits.device)
        logits[at] = logits[at].masked_fill_(banned, NEGATIVE_INFINITY)

    def _bits(self, allowed: tuple[int, ...]) -> Bits:
        is_banned = np.ones(self._vocab_size, np.bool_)
        is_banned[np.array(allowed, np.int64)] = False
        return np.packbits(is_banned, bitorder="little")

    def _mask(self, positions: SampledPositions, device: torch.device) -> torch.Tensor:
        """Returns [n, vocabulary] bool, unpacked where it is needed."""
        packed = self._banned[positions.rows]
        if device.type == "cpu":
            bits = np.unpackbits(
                packed, axis=1, count=self._vocab_size, bitorder="little"
            )
            return torch.from_numpy(bits.view(np.bool_))
        words = torch.from_numpy(packed).to(device, non_blocking=True)
        shifts = torch.arange(8, dtype=torch.uint8, device=device)
        unpacked = (words[:, :, None] >> shifts) & 1
        return unpacked.flatten(1)[:, : self._vocab_size].bool()
