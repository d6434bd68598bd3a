"""Parts of any training loop: learning rate, batches, hidden states, evaluation."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from hookline_drafting.contexts import TrainingReport
from hookline_drafting.training.teacher import Teacher

_WARM_UP_STEPS = 20
_LEAST_FACTOR = 0.02
_MOST_KEPT_BYTES = 2**30
"""Maximum size of cached hidden states."""


def rate_factor(step: int, steps: int) -> float:
    """Returns the share of the peak learning rate: linear warm-up, cosine decay."""
    if step < _WARM_UP_STEPS:
        return (step + 1) / _WARM_UP_STEPS
    progress = (step - _WARM_UP_STEPS) / max(1, steps - _WARM_UP_STEPS)
    return _LEAST_FACTOR + (1 - _LEAST_FACTOR) * (1 + math.cos(math.pi * progress)) / 2


def batches(rows: int, count: int, *, seed: int) -> Iterator[torch.Tensor]:
    """Yields indices of `count` shuffled rows, epoch after epoch, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(rows, generator=generator).split(count)


def hidden_states_of(
    teacher: Teacher, rows: torch.Tensor, count: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function from row indices to hidden states [n, length, hidden size].

    The states are computed once, `count` rows at a time, if all of them fit into 1 GiB,
    otherwise on each call.
    """
    target, device = teacher.target, teacher.device
    size = rows.numel() * target.hidden_size * target.output.element_size()
    if size > _MOST_KEPT_BYTES:
        return lambda chosen: teacher.states(rows[chosen].to(device))
    kept = torch.cat([teacher.states(part.to(device)) for part in rows.split(count)])
    return lambda chosen: kept[chosen]


class AcceptanceCounter:
    """Counts the drafts that verification at temperature 0 would accept."""

    def __init__(self, num_drafts: int) -> None:
        self._drafts, self._accepted = 0, [0] * num_drafts

    def walk(
        self, row: Sequence[int], guesses: Sequence[Sequence[int]], start: int
    ) -> None:
        """Replays the steps of a sequence and counts its accepted drafts.

        Args:
            row: The sequence.
            guesses: For each draft index, the guess made at each position; guess i at
                position p is for token p + 2 + i.
            start: Position of the first step's newest hidden state.
        """
        at = start  # position of the newest state; the next token is known
        while at + 1 + len(guesses) < len(row):
            count = 0
            while count < len(guesses) and guesses[count][at] == row[at + 2 + count]:
                self._accepted[count] += 1
                count += 1
            self._drafts += 1
            at += 1 + count

    @property
    def report(self) -> TrainingReport:
        """Totals of all sequences so far."""
        return TrainingReport(
            drafts=self._drafts, accepted_by_position=tuple(self._accepted)
        )
