"""How the tensors of one module are divided among ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline_models.checkpoints.cut import ALL, Cut

OUTPUTS, INPUTS = -2, -1
"""Dimensions of a linear layer's weight, counted from the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How the ranks divide a weight, and the bias beside it.

    A weight consists of segments, such as queries, keys and values. A segment has units
    that stay together, such as heads, of which each rank gets as many. Fewer units than
    ranks are repeated: neighbouring ranks have the same one.

    Attributes:
        dim: Dimension of the weight along which it is divided, counted from the last.
        segments: Number of units of each segment; empty for one that can be divided
            anywhere.
        is_summed: The ranks' results are summed, so that one rank has the bias.
        is_padded: Zeros follow the last rank's part where the ranks cannot divide it.
    """

    dim: int = OUTPUTS
    segments: tuple[int, ...] = ()
    is_summed: bool = False
    is_padded: bool = False

    def cut(
        self, shape: Sequence[int], *, rank: int, size: int, is_bias: bool = False
    ) -> Cut:
        """Returns one rank's part of a tensor of this shape.

        Raises:
            ValueError: The ranks cannot divide it evenly.
        """
        if is_bias and self.is_summed:
            return Cut(is_zero=rank != 0)
        dim = len(shape) + (-1 if is_bias else self.dim)
        if not 0 <= dim < len(shape):
            return ALL  # a scale of the whole layer
        length = shape[dim]
        if self.is_padded:
            return _padded(dim, length, rank, size)
        segments = self._segments(size)
        width, rest = divmod(length, sum(segments))
        if rest:
            raise ValueError(
                f"{size} ranks cannot divide {length} entries in {sum(segments)} parts"
            )
        pieces, start = [], 0
        for units in segments:
            first, count = units_of(units, rank, size)
            pieces.append((start + first * width, start + (first + count) * width))
            start += units * width
        return Cut(dim=dim, pieces=tuple(pieces))

    def _segments(self, size: int) -> tuple[int, ...]:
        """As few units as show where to divide: packed numbers have no heads."""
        if len(self.segments) == 1 and self.segments[0] % size:
            return self.segments
        return self.segments if len(self.segments) > 1 else (size,)


def units_of(units: int, rank: int, size: int) -> tuple[int, int]:
    """Returns the first of a rank's units, and their number.

    Raises:
        ValueError: The ranks can neither divide nor repeat them evenly.
    """
    if units % size == 0:
        count = units // size
        return rank * count, count
    if size % units == 0:
        return rank * units // size, 1
    raise ValueError(f"{size} ranks cannot divide or repeat {units} heads evenly")


def rows_of_rank(length: int, size: int) -> int:
    """Returns each rank's number of rows of a padded table."""
    return -(-length // size)


def _padded(dim: int, length: int, rank: int, size: int) -> Cut:
    rows = rows_of_rank(length, size)
    start, stop = (min(length, at * rows) for at in (rank, rank + 1))
    return Cut(dim=dim, pieces=((start, stop),), padding=rows - (stop - start))
