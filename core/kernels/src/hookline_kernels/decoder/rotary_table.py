"""Cosines and sines of rotary embedding by position, read from a model's module."""

import torch
from torch import nn

from hookline_kernels.failure import KernelError
from hookline_kernels.metadata import CosSin

_FIRST = 1024


class _RotaryModule:
    """A model's own rotary module, read from position 0 on."""

    def __init__(self, rotary: nn.Module, like: torch.Tensor, head_dim: int) -> None:
        self._rotary, self._like, self._head_dim = rotary, like, head_dim

    def read(self, rows: int) -> CosSin:
        """[rows, head dim] each, in the dtype and on the device of `like`."""
        positions = torch.arange(rows, device=self._like.device)
        cosines, sines = self._rotary(self._like, positions[None])
        if self._is_halved(cosines):
            cosines, sines = (torch.cat((side, side), -1) for side in (cosines, sines))
        return cosines[0], sines[0]

    def _is_halved(self, side: torch.Tensor) -> bool:
        """Whether a pair's angle is given once: repeated, it is a part of a head's."""
        if 2 * side.shape[-1] != self._head_dim:
            return False
        first, second = side.chunk(2, -1)
        return not torch.equal(first, second)

    def read_and_check(self, rows: int) -> CosSin:
        """Reads as many rows.

        Raises:
            KernelError: The module rotates other pairs, or only a part of each head.
        """
        sides = self.read(rows)
        if sides[0].shape != (rows, self._head_dim):
            raise KernelError("its rotary embedding rotates only a part of each head")
        for side in sides:
            first, second = side.chunk(2, -1)
            if not torch.equal(first, second):
                raise KernelError("its rotary embedding pairs numbers in another way")
        return sides


class GrowingRotaryTable:
    """A table that doubles when a longer request needs more positions.

    Both numbers of a pair share a cosine, so a row is half as wide as a head. Numbers
    are rounded to the model's dtype, as the model's own are, and kept in float32.

    Attributes:
        table: Cosines and sines, [positions, head dim ÷ 2] each.
    """

    def __init__(
        self, rotary: nn.Module, dtype: torch.dtype, head_dim: int, limit: int
    ) -> None:
        """Reads the module's first rows; never reads positions from `limit` on.

        Raises:
            KernelError: It rotates other pairs, or only a part of each head.
        """
        self._module = _RotaryModule(rotary, torch.empty(1, dtype=dtype), head_dim)
        self._limit = limit
        self.table = self._halves(*self._module.read_and_check(min(_FIRST, limit)))

    def rows(self, _positions: torch.Tensor, longest: int) -> CosSin:
        """Returns the whole table, with rows for positions 0 … `longest` − 1."""
        self.grow(longest)
        return self.table

    def grow(self, positions: int) -> None:
        """Adds rows up to position `positions` − 1, if they are missing."""
        rows = len(self.table[0])
        if positions > rows:
            rows = max(positions, min(2 * rows, self._limit))
            self.table = self._halves(*self._module.read(rows))

    @staticmethod
    def _halves(cosines: torch.Tensor, sines: torch.Tensor) -> CosSin:
        half = cosines.shape[-1] // 2
        first, second = (
            side[:, :half].float().contiguous() for side in (cosines, sines)
        )
        return first, second


class FullRotaryTable:
    """A table of all positions, from which each step gathers its tokens' rows.

    It never moves, as CUDA graphs require.
    """

    def __init__(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> None:
        """Reads the module, in the dtype and on the device of `like`.

        Raises:
            KernelError: It rotates other pairs, or only a part of each head.
        """
        sides = _RotaryModule(rotary, like, head_dim).read_and_check(limit)
        self._cosines, self._sines = (side.contiguous() for side in sides)

    def rows(self, positions: torch.Tensor, _longest: int) -> CosSin:
        """Returns [T, head dim] each, of T positions."""
        cosines = self._cosines.index_select(0, positions)
        return cosines, self._sines.index_select(0, positions)
