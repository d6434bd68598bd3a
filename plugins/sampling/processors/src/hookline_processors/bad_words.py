"""Bans tokens that would complete one of a request's `bad_words`."""

import numpy as np
import torch

from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence
from hookline_processors.scatter import CellCache, Cells
from hookline_processors.shared import Shared
from hookline_processors.word_tree import WordTree


class BadWords:
    """Bans the last token of a bad word where the output ends in the others."""

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        del context
        self._trees: dict[int, WordTree] = {}
        self._always: dict[int, Int64] = {}
        self._shared = Shared(WordTree)
        self._cache = CellCache()

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if not sequence.bad_words_token_ids:
            return False
        tree = self._shared.of(sequence.bad_words_token_ids)
        self._trees[row], self._always[row] = tree, tree.always
        self._cache.clear()
        return True

    def release(self, row: int) -> None:
        del self._trees[row], self._always[row]
        self._cache.clear()
        if not self._trees:
            self._shared.clear()

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        outputs, rows = positions.num_output_tokens.tolist(), positions.rows.tolist()
        endings = [
            self._trees[row].endings(positions.tokens(at), outputs[at])
            for at, row in enumerate(rows)
        ]
        if not any(endings):
            if any(len(self._always[row]) for row in rows):
                cells = self._cache.cells(positions, self._always, logits)
                cells.ban(logits)
            return
        banned = [
            np.union1d(self._always[row], np.array(found, np.int64))
            for row, found in zip(rows, endings, strict=True)
        ]
        Cells(positions.indices, banned, logits).ban(logits)
