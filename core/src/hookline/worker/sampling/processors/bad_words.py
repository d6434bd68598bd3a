"""Bans tokens that would complete one of a request's `bad_words`."""

from collections import defaultdict

import numpy as np
import torch

from hookline.step.plan import AdmittedSequence
from hookline.worker.input_batch import Int32, Int64
from hookline.worker.sampling.processors.scatter import Cells
from hookline.worker.sampling.sampled_positions import SampledPositions

_Endings = dict[tuple[int, ...], list[int]]


class BadWords:
    """Bans the last token of a bad word where the output ends in the others."""

    needs_prepare = False

    def __init__(self) -> None:
        self._words: dict[int, _Words] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        if not sequence.bad_words_token_ids:
            return False
        self._words[row] = _Words(sequence.bad_words_token_ids)
        return True

    def release(self, row: int) -> None:
        del self._words[row]

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        outputs = positions.num_output_tokens.tolist()
        banned = [
            self._words[row].banned_after(positions.tokens(at), outputs[at])
            for at, row in enumerate(positions.rows.tolist())
        ]
        if any(len(token_ids) for token_ids in banned):
            Cells(positions.indices, banned, logits.device).ban(logits)


class _Words:
    """One request's bad words, by the tokens before their last.

    A step looks up one key per distinct length, however many words there are.
    """

    def __init__(self, words: tuple[tuple[int, ...], ...]) -> None:
        single = [word[0] for word in words if len(word) == 1]
        self._always: Int64 = np.array(single, np.int64)
        by_length: dict[int, _Endings] = defaultdict(lambda: defaultdict(list))
        for word in words:
            if len(word) > 1:
                by_length[len(word) - 1][word[:-1]].append(word[-1])
        self._by_length = {size: dict(heads) for size, heads in by_length.items()}

    def banned_after(self, tokens: Int32, num_output_tokens: int) -> Int64:
        """Returns the tokens that would complete a word; only output counts."""
        found: list[int] = []
        for length, endings in self._by_length.items():
            if length <= num_output_tokens:
                found += endings.get(tuple(tokens[-length:].tolist()), ())
        if not found:
            return self._always
        return np.concatenate((self._always, np.array(found, np.int64)))
