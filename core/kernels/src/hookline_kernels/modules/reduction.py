"""The reduction of a split product, of which one rank's part has the residual."""

from typing import Protocol

import torch

from hookline_kernels.modules.pre_norm import BlockProduct, MultiplyBlocks, Product


class Reduce(Protocol):
    """Sums the partial results of all ranks that hold a part of a split weight.

    A bias and a residual belong to the whole result, and are added by one rank only.

    Attributes:
        adds_residual: This rank's product adds the residual.
        is_recordable: It is a kernel that a recorded step can hold.
        is_capturable: It only launches work on the device, so that a CUDA graph can
            capture it.
    """

    is_capturable: bool

    @property
    def adds_residual(self) -> bool: ...

    @property
    def is_recordable(self) -> bool: ...

    def __call__(self, partial: torch.Tensor) -> torch.Tensor:
        """Returns the sum over all ranks of [T, hidden]; may overwrite `partial`.

        Every rank calls it the same number of times in the same order.
        """
        ...


class ReducedProduct:
    """A product, to which one rank adds the residual in the same pass, and its sum.

    Attributes:
        product: The product of this rank's part.
        reduce: Sums over ranks.
    """

    def __init__(self, product: Product, reduce: Reduce) -> None:
        self.product, self.reduce = product, reduce
        self.of_blocks: BlockProduct | None = None
        if product.of_blocks is not None:
            least, multiply = product.of_blocks
            self.of_blocks = BlockProduct(least, _ReducedBlocks(multiply, reduce))

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        own = residual if self.reduce.adds_residual else None
        return self.reduce(self.product(values, own))


class _ReducedBlocks:
    """A reduced product of rows in blocks."""

    def __init__(self, multiply: MultiplyBlocks, reduce: Reduce) -> None:
        self._multiply, self._reduce = multiply, reduce

    def __call__(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        own = residual if self._reduce.adds_residual else None
        return self._reduce(self._multiply(values, rows, own))


def reduced(product: Product, reduce: Reduce | None) -> Product:
    """Puts a reduction behind a product.

    Returns the product itself if there is nothing to reduce.

    Args:
        product: Product of the whole weight, or of this rank's part of the inputs.
        reduce: Sums the parts; None if the weight is not split.
    """
    return product if reduce is None else ReducedProduct(product, reduce)
