"""The ranks that share each layer of a model, as its parts call them."""

from typing import Protocol

import torch


class TensorGroup(Protocol):
    """The tensor-parallel ranks of one pipeline stage, seen from one of them.

    Every rank makes the same calls in the same order, each from one thread. A call
    raises `hookline.exceptions.RankError` if another rank has ended or does not come in
    time.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
        is_recordable: A sum is a kernel of the CPU that recordings of steps can hold,
            and replaces its argument.
        is_capturable: Calls only launch work on the device, so that a CUDA graph can
            capture them.
    """

    rank: int
    size: int
    is_recordable: bool
    is_capturable: bool

    def all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """Returns the sum over ranks, in the tensor's shape and dtype.

        All ranks get the same bits. It may overwrite `partial`.
        """
        ...

    def gather(self, part: torch.Tensor) -> torch.Tensor | None:
        """Joins [W, n] of each rank to [W, n · size] at rank 0; None elsewhere."""
        ...
