"""The part of an adapter's matrix that one rank keeps."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from hookline_lora.files.matching import StoredProduct
from hookline_lora.files.numbers import Bits
from hookline_models.checkpoints.cut import Cut

Part = Callable[[str, Sequence[int]], Cut | None]
"""(module, shape of its weight) → what a rank has of the weight; None for nothing.

The weight is [out, in], that of an embedding [vocabulary, width].
"""
WHOLE = Cut()


def cuts_of(product: StoredProduct, cut: Cut) -> tuple[Cut, Cut]:
    """Returns the cuts of A and B that belong to a cut of the module's weight."""
    is_of_inputs = (cut.dim == 0) is product.is_embedding
    if cut.pieces is None:
        return cut, cut
    if is_of_inputs:
        return replace(cut, dim=1), WHOLE
    return WHOLE, replace(cut, dim=0)


class Kept:
    """A matrix in memory that is filled row by row."""

    def __init__(self, shape: Sequence[int], cut: Cut, dtype: torch.dtype) -> None:
        """Makes room for the part of a matrix of a shape.

        Raises:
            ValueError: The matrix cannot be divided evenly.
        """
        self._cut = cut
        self.tensor = torch.empty(cut.shape(shape), dtype=dtype)
        kind = torch.int32 if dtype.itemsize == 4 else torch.int16
        self._bits = self.tensor.view(kind).numpy().view(f"u{dtype.itemsize}")
        self._clear(cut)

    def _clear(self, cut: Cut) -> None:
        """Zeroes what no row brings; by numpy, whose operations take one thread."""
        if cut.is_zero:
            self._bits[...] = 0
        elif cut.padding and cut.dim == 0:
            self._bits[-cut.padding :] = 0
        elif cut.padding:
            self._bits[:, -cut.padding :] = 0

    def add(self, start: int, rows: Bits) -> None:
        """Keeps what belongs to the part of the rows from index `start` on."""
        stop, at = start + len(rows), 0
        if self._cut.pieces is None:
            if not self._cut.is_zero:
                self._bits[start:stop] = rows
            return
        for first, last in self._cut.pieces:
            if self._cut.dim == 1:
                self._bits[start:stop, at : at + last - first] = rows[:, first:last]
            elif (lower := max(first, start)) < (upper := min(last, stop)):
                moved = at - first
                self._bits[lower + moved : upper + moved] = rows[
                    lower - start : upper - start
                ]
            at += last - first
