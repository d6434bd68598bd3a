"""Repetition, presence and frequency penalties."""

import numpy as np
import numpy.typing as npt
import torch

from hookline.step.plan import AdmittedSequence
from hookline.worker.sampling.float32 import positive_float32
from hookline.worker.sampling.sampled_positions import SampledPositions

LARGEST_LOGIT = torch.finfo(torch.float32).max


class Penalties:
    """Makes tokens less likely that the prompt or the output contains.

    Repetition (Keskar et al. 2019) divides positive and multiplies negative logits of
    tokens in prompt or output; frequency is subtracted once per occurrence in the
    output, presence once.
    """

    needs_prepare = False

    def __init__(self, max_num_seqs: int) -> None:
        self._repetition = np.ones(max_num_seqs, np.float32)
        self._presence = np.zeros(max_num_seqs, np.float32)
        self._frequency = np.zeros(max_num_seqs, np.float32)

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
        at = torch.from_numpy(positions.indices).to(device)
        part = logits[at]
        counts, seen = _count_tokens(positions, logits)

        def column(values: npt.NDArray[np.float32]) -> torch.Tensor:
            return torch.from_numpy(values[rows]).to(device)[:, None]

        repetition = column(self._repetition)
        scaled = torch.where(part > 0, part / repetition, part * repetition)
        scaled = scaled.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
        part = torch.where(seen, scaled, part)
        part -= counts * column(self._frequency)
        part -= (counts > 0) * column(self._presence)
        logits[at] = part


def _count_tokens(
    positions: SampledPositions, logits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Counts tokens of the output, and finds those of prompt or output.

    Returns:
        [n, vocabulary] float32 and bool.
    """
    device = logits.device
    tokens = torch.from_numpy(positions.all_tokens().astype(np.int64)).to(device)
    places = torch.arange(tokens.shape[1], device=device)[None, :]
    ends = torch.from_numpy(positions.ends).to(device)[:, None]
    prompts = positions.batch.num_prompt_tokens[positions.rows]
    starts = torch.from_numpy(prompts).to(device)[:, None]
    counts = torch.zeros(len(positions), logits.shape[1], device=device)
    counts.scatter_add_(1, tokens, ((places >= starts) & (places < ends)).float())
    seen = torch.zeros_like(counts)
    seen.scatter_add_(1, tokens, (places < ends).float())
    return counts, seen > 0
