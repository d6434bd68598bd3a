"""Repetition, presence and frequency penalties."""

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessorContext,
    SampledPositions,
)
from hookline.step import AdmittedSequence
from hookline_kernels.row_drawing import positive_float32

LARGEST_LOGIT = torch.finfo(torch.float32).max


class Penalties:
    """Makes tokens less likely that the prompt or the output contains.

    Repetition (Keskar et al. 2019) divides positive and multiplies negative logits of
    tokens in prompt or output; frequency is subtracted once per occurrence in the
    output, presence once.
    """

    needs_prepare = False

    def __init__(self, context: LogitsProcessorContext) -> None:
        rows = context.max_num_seqs
        self._repetition = np.ones(rows, np.float32)
        self._presence = np.zeros(rows, np.float32)
        self._frequency = np.zeros(rows, np.float32)

    def admit(self, row: int, sequence: AdmittedSequence) -> bool:
        params = sequence.params
        if not params.has_penalties:
            return False
        self._repetition[row] = positive_float32(params.repetition_penalty)
        self._presence[row] = params.presence_penalty
        self._frequency[row] = params.frequency_penalty
        return True

    def release(self, row: int) -> None:
        """The row's columns are overwritten by its next request."""

    def prepare(self, positions: SampledPositions) -> None:
        """There is nothing to compute ahead."""

    def apply(self, logits: torch.Tensor, positions: SampledPositions) -> None:
        device, rows = logits.device, positions.rows
        tokens, counts = _count_tokens(positions, logits)

        def column(values: npt.NDArray[np.float32]) -> torch.Tensor:
            return torch.from_numpy(values[rows]).to(device)[:, None]

        at = torch.from_numpy(positions.indices).to(device)
        is_whole = len(positions) == len(logits)
        part = logits if is_whole else logits[at]
        seen, repetition = part.gather(1, tokens), column(self._repetition)
        scaled = torch.where(seen > 0, seen / repetition, seen * repetition)
        scaled.clamp_(-LARGEST_LOGIT, LARGEST_LOGIT)
        scaled -= counts * column(self._frequency)
        scaled -= (counts > 0) * column(self._presence)
        part.scatter_(1, tokens, scaled)
        if not is_whole:
            logits[at] = part


def _count_tokens(
    positions: SampledPositions, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Counts how often the output has each token of prompt and output.

    Returns:
        [n, longest] int64 tokens, and float32 counts. What lies beyond the end of a
        shorter request repeats its first token.
    """
    device = logits.device
    tokens = torch.from_numpy(positions.all_tokens().astype(np.int64)).to(device)
    places = torch.arange(tokens.shape[1], device=device)[None, :]
    ends = torch.from_numpy(positions.ends).to(device)[:, None]
    prompts = positions.batch.num_prompt_tokens[positions.rows]
    starts = torch.from_numpy(prompts).to(device)[:, None]
    tokens = torch.where(places < ends, tokens, tokens[:, :1])
    is_output = ((places >= starts) & (places < ends)).to(torch.int32)
    counts = torch.zeros(
        len(positions), logits.shape[1], dtype=torch.int32, device=device
    )
    counts.scatter_add_(1, tokens, is_output)
    return tokens, counts.gather(1, tokens).float()
