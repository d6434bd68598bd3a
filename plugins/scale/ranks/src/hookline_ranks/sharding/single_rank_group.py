"""A group of one rank, which computes what it would compute among others."""

from dataclasses import dataclass

import torch


@dataclass(slots=True)
class SingleRankGroup:
    """A `TensorGroup` whose other ranks do not exist: sums lack their parts.

    Attributes:
        size: Number of ranks that there would be.
    """

    size: int
    rank: int = 0
    is_recordable: bool = True
    is_capturable: bool = False

    def all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        return partial

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        return part.repeat(1, self.size)

    def end_step(self) -> int:
        return 0
