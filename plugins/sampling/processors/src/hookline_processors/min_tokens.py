"""Holds stop tokens back until `min_tokens` are generated."""

import sys

import numpy as np
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence
from hookline_processors.scatter import CellCache


class MinTokens:
    """Bans a request's stop tokens where the output would be too short."""

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        del context
        self._min_tokens: dict[int, int] = {}
        self._stop_tokens: dict[int, Int64] = {}
        self._cache = CellCache()

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        params, stops = sequence.params, sequence.eos_token_ids
        least = params.min_tokens
        if params.ignore_eos and params.structured_outputs is not None:
            # As long as the grammar can go on: it needs them for its end.
            least = sys.maxsize
            stops = tuple(set(stops).difference(params.stop_token_ids))
        # With one token at least, the first one may be a stop token.
        if least <= 1 or not stops:
            return False
        self._min_tokens[row] = least
        self._stop_tokens[row] = np.array(stops, np.int64)
        self._cache.clear()
        return True

    def release(self, row: int) -> None:
        del self._min_tokens[row], self._stop_tokens[row]
        self._cache.clear()

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        least = [self._min_tokens[row] for row in positions.rows.tolist()]
        is_short = positions.num_output_tokens + 1 < np.array(least, np.int64)
        if not is_short.any():
            return
        short = positions.select(is_short)
        self._cache.cells(short, self._stop_tokens, logits).ban(logits)
