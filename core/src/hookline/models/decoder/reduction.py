"""The reduction between a split product and the residual."""

from typing import Protocol

import torch

from hookline.models.adapt.pre_norm import BlockProduct, MultiplyBlocks, Product


class Reduce(Protocol):
    """Sums the partial results of all ranks that hold a part of a split weight.

    A bias that belongs to the whole result must be held by one rank only.

    Attributes:
        is_capturable: It only launches work on the device, so that a CUDA graph can
            capture it.
    """

    is_capturable: bool

    def __call__(self, partial: torch.Tensor) -> torch.Tensor:
        """Returns the sum over all ranks of [T, hidden]; may overwrite `partial`.

        Every rank calls it the same number of times in the same order.
        """
        ...


class ReducedProduct:
    """A product, its reduction, then the residual."""

    def __init__(self, product: Product, reduce: Reduce) -> None:
        self._product, self._reduce = product, reduce
        self.of_blocks: BlockProduct | None = None
        if product.of_blocks is not None:
            least, multiply = product.of_blocks
            self.of_blocks = BlockProduct(least, _ReducedBlocks(multiply, reduce))

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return _added(self._reduce(self._product(values)), residual)


class _ReducedBlocks:
    """A reduced product of rows in blocks."""

    def __init__(self, multiply: MultiplyBlocks, reduce: Reduce) -> None:
        self._multiply, self._reduce = multiply, reduce

    def __call__(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return _added(self._reduce(self._multiply(values, rows)), residual)


def reduced(product: Product, reduce: Reduce | None) -> Product:
    """Puts a reduction between a product and its residual.

    Returns the product itself, which adds the residual in one pass, if there is nothing
    to reduce.

    Args:
        product: Product of the whole weight, or of this rank's part of the inputs.
        reduce: Sums the parts; None if the weight is not split.
    """
    return product if reduce is None else ReducedProduct(product, reduce)


def _added(result: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
    return result if residual is None else result.add_(residual)
