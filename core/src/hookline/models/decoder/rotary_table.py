"""The cosines and sines of rotary embedding, by position."""

import torch
from torch import nn

from hookline.models.decoder.parts import NotDecoder

_FIRST = 1024

Sides = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines."""


class _Turns:
    """What a model's own module says of the first positions."""

    def __init__(self, rotary: nn.Module, like: torch.Tensor, head_dim: int) -> None:
        self._rotary, self._like, self._head_dim = rotary, like, head_dim

    def ask(self, rows: int) -> Sides:
        """[rows, head dim] each, in the dtype and on the device of `like`."""
        positions = torch.arange(rows, device=self._like.device)
        cosines, sines = self._rotary(self._like, positions[None])
        return cosines[0], sines[0]

    def check(self, rows: int) -> Sides:
        """The same.

        Raises:
            NotDecoder: It turns other pairs, or only a part of a head.
        """
        sides = self.ask(rows)
        if sides[0].shape != (rows, self._head_dim):
            raise NotDecoder("its rotary embedding turns a part of each head")
        for side in sides:
            first, second = side.chunk(2, -1)
            if not torch.equal(first, second):
                raise NotDecoder("its rotary embedding pairs numbers otherwise")
        return sides


class Angles:
    """A table that grows with the positions that are asked for, by doubling.

    A cosine serves both numbers of a pair, so a row is half as wide as a head. Numbers
    are rounded to the model's dtype, as a model's own are, and kept in float32.

    Attributes:
        table: Cosines and sines, [positions, head dim ÷ 2] each.
    """

    def __init__(
        self, rotary: nn.Module, dtype: torch.dtype, head_dim: int, limit: int
    ) -> None:
        """Asks the model's own module for the first rows; never for more than `limit`.

        Raises:
            NotDecoder: It turns other pairs, or only a part of a head.
        """
        self._turns = _Turns(rotary, torch.empty(1, dtype=dtype), head_dim)
        self._limit = limit
        self.table = self._halves(*self._turns.check(min(_FIRST, limit)))

    def of(self, _positions: torch.Tensor, longest: int) -> Sides:
        """The table, with rows for positions 0 … `longest` − 1."""
        self.reach(longest)
        return self.table

    def reach(self, positions: int) -> None:
        """Has rows for positions 0 … `positions` − 1."""
        rows = len(self.table[0])
        if positions > rows:
            rows = max(positions, min(2 * rows, self._limit))
            self.table = self._halves(*self._turns.ask(rows))

    @staticmethod
    def _halves(cosines: torch.Tensor, sines: torch.Tensor) -> Sides:
        half = cosines.shape[-1] // 2
        first, second = (
            side[:, :half].float().contiguous() for side in (cosines, sines)
        )
        return first, second


class WholeAngles:
    """A table of all positions, of which each step takes its tokens' rows.

    It lies where it is for good, as graphs of a device need it.
    """

    def __init__(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> None:
        """Asks the model's own module, in the dtype and on the device of `like`.

        Raises:
            NotDecoder: It turns other pairs, or only a part of a head.
        """
        sides = _Turns(rotary, like, head_dim).check(limit)
        self._cosines, self._sines = (side.contiguous() for side in sides)

    def of(self, positions: torch.Tensor, _longest: int) -> Sides:
        """[T, head dim] each, of T positions."""
        cosines = self._cosines.index_select(0, positions)
        return cosines, self._sines.index_select(0, positions)
