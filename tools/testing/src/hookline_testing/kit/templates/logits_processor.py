"""Logits processor `sample`: bans the tokens that a request names.

A request names them in `vllm_xargs`, as `{"sample": [5, 7]}`.
"""

import torch

from hookline import hookimpl
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence


class SampleProcessor:
    """Bans tokens; keeps those of each batch row.

    Attributes:
        needs_prepare: Whether `prepare` is called.
    """

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        self._vocab_size = context.vocab_size
        self._banned: dict[int, list[int]] = {}

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        """Returns whether the request in this batch row names tokens."""
        given = (sequence.params.extra_args or {}).get("sample", ())
        ids = given if isinstance(given, list | tuple) else [given]
        banned = [each for each in ids if isinstance(each, int)]
        if any(not 0 <= each < self._vocab_size for each in banned):
            raise ValueError("sample: there is no such token")
        if banned:
            self._banned[row] = banned
        return bool(banned)

    def release(self, row: int) -> None:
        """Called for requests that it applies to."""
        del self._banned[row]

    def prepare(self, positions: SampledPositions) -> None:
        """Has nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        """Changes rows of [S, vocabulary] float32 logits in place."""
        places = zip(positions.indices.tolist(), positions.rows.tolist(), strict=True)
        for index, row in places:
            logits[index, self._banned[row]] = float("-inf")


@hookimpl
def create_logits_processor(context: LogitsProcessorContext) -> SampleProcessor:
    """Called in the worker."""
    return SampleProcessor(context)
