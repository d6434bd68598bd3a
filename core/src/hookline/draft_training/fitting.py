"""What fitting any draft takes: a schedule, batches, states, and a judge of guesses."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from hookline.draft_training.teacher import Teacher
from hookline.payloads import TrainingReport

_WARM_UP_STEPS = 20
_LEAST_FACTOR = 0.02
_MOST_KEPT_BYTES = 2**30
"""Of hidden states."""


def rate_factor(step: int, steps: int) -> float:
    """Share of the highest learning rate: a linear warm-up, then a cosine."""
    if step < _WARM_UP_STEPS:
        return (step + 1) / _WARM_UP_STEPS
    progress = (step - _WARM_UP_STEPS) / max(1, steps - _WARM_UP_STEPS)
    return _LEAST_FACTOR + (1 - _LEAST_FACTOR) * (1 + math.cos(math.pi * progress)) / 2


def batches(rows: int, count: int, *, seed: int) -> Iterator[torch.Tensor]:
    """Endless epochs of shuffled rows: their indices."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(rows, generator=generator).split(count)


def kept_states(
    teacher: Teacher, rows: torch.Tensor, count: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What gives the target's states of chosen rows: [n, length, hidden size].

    They are computed once, `count` rows at a time, if they can be kept, and else
    whenever they are wanted.
    """
    target, device = teacher.target, teacher.device
    size = rows.numel() * target.hidden_size * target.output.element_size()
    if size > _MOST_KEPT_BYTES:
        return lambda chosen: teacher.states(rows[chosen].to(device))
    kept = torch.cat([teacher.states(part.to(device)) for part in rows.split(count)])
    return lambda chosen: kept[chosen]


class Judge:
    """Counts what verification at temperature 0 would accept of guesses."""

    def __init__(self, num_drafts: int) -> None:
        self._drafts, self._accepted = 0, [0] * num_drafts

    def walk(
        self, row: Sequence[int], guesses: Sequence[Sequence[int]], start: int
    ) -> None:
        """Goes through a sequence from step to step.

        Args:
            row: The sequence.
            guesses: For each place in the draft, the guess made at each position; that
                of place i at position p is of token p + 2 + i.
            start: Position of the first step's newest state.
        """
        at = start  # where the newest state is; the token behind it is known
        while at + 1 + len(guesses) < len(row):
            count = 0
            while count < len(guesses) and guesses[count][at] == row[at + 2 + count]:
                self._accepted[count] += 1
                count += 1
            self._drafts += 1
            at += 1 + count

    @property
    def report(self) -> TrainingReport:
        """Of all sequences so far."""
        return TrainingReport(
            drafts=self._drafts, accepted_by_position=tuple(self._accepted)
        )
