"""What follows a norm, and may read its rows in blocks."""

import sys
from typing import Protocol

import torch

from hookline.models.adapt.norms import FastNorm


class Product(Protocol):
    """One or more linear layers, or a whole feed-forward layer."""

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The result of [T, in], and the summand, which is used up."""
        ...


class BlockProduct(Product, Protocol):
    """One that is quicker of many rows if they lie in blocks.

    Attributes:
        least_in_blocks: Rows from which it is; None if it takes none.
    """

    least_in_blocks: int | None

    def of_blocks(
        self, values: torch.Tensor, rows: int, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same of blocks, as the kernel of a `FastNorm` lays them."""
        ...


class Normed:
    """then(norm(values), summand)."""

    def __init__(self, norm: FastNorm, then: Product | BlockProduct) -> None:
        """Takes a norm, and what reads its result alone."""
        self._norm, self._then = norm, then
        least = getattr(then, "least_in_blocks", None)
        self._least = sys.maxsize
        if least is not None and norm.in_blocks is not None:
            self._least, self._of_blocks = least, then.of_blocks  # type: ignore[union-attr]
            self._in_blocks = norm.in_blocks

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, width] contiguous → [T, out]; the summand is used up."""
        if len(values) < self._least:
            return self._then(self._norm(values), summand)
        return self._of_blocks(self._in_blocks(values), len(values), summand)
