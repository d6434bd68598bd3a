"""One rank's calls to the others, which are local until the model serves."""

import torch

from hookline_ranks.sharding.tensor_group import TensorGroup


class RankReduction:
    """The sums and joins of one rank of a loaded model; implements `Reduce`.

    While a model is loaded and tried, ranks need not keep step: partial results count
    as whole ones, which changes no shape.

    Attributes:
        is_on: The group is called.
        is_capturable: Of the group.
    """

    def __init__(self, group: TensorGroup, *, is_recorded: bool = True) -> None:
        """Wraps a group; the rank makes no call until `join`.

        Args:
            group: The ranks.
            is_recorded: Recorded steps may hold its sums; alike on all ranks.
        """
        self._group, self._is_recorded = group, is_recorded
        self.rank, self.size = group.rank, group.size
        self.is_capturable = group.is_capturable
        self.is_on = False

    @property
    def identity(self) -> str:
        """Tells the ranks apart."""
        return f"rank {self.rank} of {self.size}"

    def join(self) -> None:
        """Makes further calls with the other ranks, which must do the same."""
        self.is_on = True

    @property
    def adds_residual(self) -> bool:
        """One rank's product has the residual; alone, each must have it."""
        return self.rank == 0 or not self.is_on

    @property
    def is_recordable(self) -> bool:
        """A recording of a step that calls nobody would go on calling nobody."""
        return self.is_on and self._is_recorded and self._group.is_recordable

    def __call__(self, partial: torch.Tensor) -> torch.Tensor:
        """Returns the sum over all ranks; may overwrite `partial`."""
        if not self.is_on:
            return partial
        return self._group.all_reduce(partial.contiguous())

    def gather(self, part: torch.Tensor, width: int) -> torch.Tensor | None:
        """Joins [W, n] of each rank to [W, width] at rank 0; None elsewhere.

        A rank that has not joined yet repeats its own part.
        """
        whole: torch.Tensor | None
        if not len(part):  # a chunk of a prompt
            return part.new_empty(0, width)
        if self.is_on:
            whole = self._group.gather(part.contiguous())
        else:
            whole = part.repeat(1, self.size)
        if whole is None or whole.shape[1] == width:
            return whole
        return whole[:, :width].contiguous()  # without the last rank's padding
