"""An RMSNorm and the product after it, which may read rows in blocks."""

import sys
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from hookline_kernels.modules.norms import FastNorm


class MultiplyBlocks(Protocol):
    """A product of rows that lie in blocks."""

    def __call__(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [rows, out] plus the residual, which it may overwrite.

        Args:
            values: Blocks of `rows` rows, as `FastNorm.in_blocks` lays them out.
            rows: Number of rows.
            residual: [rows, out], contiguous.
        """
        ...


class BlockProduct(NamedTuple):
    """A faster form of a product for many rows, which must lie in blocks.

    Attributes:
        least_rows: Number of rows from which it is faster.
        multiply: The product.
    """

    least_rows: int
    multiply: MultiplyBlocks


class Product(Protocol):
    """One or more linear layers, or a whole feed-forward layer.

    Attributes:
        of_blocks: The product for rows in blocks; None if not supported.
    """

    @property
    def of_blocks(self) -> BlockProduct | None: ...

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [T, out] of [T, in], plus the residual, which it may overwrite."""
        ...


@runtime_checkable
class NormingProduct(Product, Protocol):
    """A product that can norm its rows itself, where that is faster."""

    def of_normed(
        self,
        values: torch.Tensor,
        norm: FastNorm,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns what the product of `norm(values)` is."""
        ...


class PreNorm:
    """product(norm(values)) + residual.

    Attributes:
        norm: The norm.
        product: The product.
    """

    def __init__(self, norm: FastNorm, product: Product) -> None:
        """Joins a norm and the only reader of its result."""
        self.norm, self.product = norm, product
        self._of_normed = (
            product.of_normed if isinstance(product, NormingProduct) else None
        )
        self._least = sys.maxsize
        if product.of_blocks is not None and norm.in_blocks is not None:
            self._least, self._multiply_blocks = product.of_blocks
            self._in_blocks = norm.in_blocks

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, width] contiguous → [T, out]; may overwrite the residual."""
        if self._of_normed is not None:
            return self._of_normed(values, self.norm, residual)
        if len(values) < self._least:
            return self.product(self.norm(values), residual)
        return self._multiply_blocks(self._in_blocks(values), len(values), residual)
