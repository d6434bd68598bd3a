"""The cosines and sines of rotary embedding, by position."""

import torch
from torch import nn

from hookline.models.decoder.parts import NotDecoder

_FIRST = 1024


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
        self._rotary = rotary
        self._like = torch.empty(1, dtype=dtype)
        self._limit = limit
        rows = min(_FIRST, limit)
        cosines, sines = self._ask(rows)
        if cosines.shape != (rows, head_dim):
            raise NotDecoder("its rotary embedding turns a part of each head")
        for side in (cosines, sines):
            first, second = side.chunk(2, -1)
            if not torch.equal(first, second):
                raise NotDecoder("its rotary embedding pairs numbers otherwise")
        self.table = self._halves(cosines, sines)

    def reach(self, positions: int) -> None:
        """Has rows for positions 0 … `positions` − 1."""
        rows = len(self.table[0])
        if positions > rows:
            rows = max(positions, min(2 * rows, self._limit))
            self.table = self._halves(*self._ask(rows))

    def _ask(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        cosines, sines = self._rotary(self._like, torch.arange(rows)[None])
        return cosines[0], sines[0]

    @staticmethod
    def _halves(
        cosines: torch.Tensor, sines: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        half = cosines.shape[-1] // 2
        first, second = (
            side[:, :half].float().contiguous() for side in (cosines, sines)
        )
        return first, second
