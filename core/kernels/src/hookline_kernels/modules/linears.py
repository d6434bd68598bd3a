"""Linear layers with packed weights, and several of the same input joined as one."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import torch
from torch import nn

from hookline_kernels import KernelError, import_compiled
from hookline_kernels.cpu.linear import can_pack, pack, packed_linear, plain_linear
from hookline_kernels.modules.pre_norm import BlockProduct

_log = logging.getLogger(__name__)


class FastLinear(nn.Linear):
    """A linear layer whose weight is packed where that pays.

    Packed or not, `weight` has the shape of a linear layer's. Calls skip the hooks and
    the attribute look-up of modules, which would slow small products down.

    Attributes:
        is_packed: The weight is packed.
        of_blocks: Its form for rows in blocks; None if it has none.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        products = (
            _in_float32(weight, bias)
            or _by_vectors(weight, bias)
            or _by_onednn(weight, bias)
        )
        self.is_packed = products.weight is not weight
        self.weight = nn.Parameter(products.weight, requires_grad=False)
        given = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.register_parameter("bias", given)
        self._for_few, self._product = products.for_few, products.for_all
        self.of_blocks = products.of_blocks

    def forward(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns values · weightᵀ + bias + residual.

        With a residual, an unpacked layer takes [T, in] only.
        """
        if values.ndim == 2:
            for most, product in self._for_few:
                if len(values) <= most:
                    return product(values, residual)
        return self._product(values, residual)

    __call__ = forward


class Rows(Protocol):
    """A product of rows, or a layer of several."""

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class _Products:
    """The products that compute one layer.

    Attributes:
        weight: The weight in these products' layout.
        for_all: Takes any number of rows.
        for_few: Faster products, each with its largest number of rows, ascending.
        of_blocks: The product for rows in blocks.
    """

    weight: torch.Tensor
    for_all: Rows
    for_few: tuple[tuple[int, Rows], ...] = ()
    of_blocks: BlockProduct | None = None


def is_worth_packing(weight: torch.Tensor) -> bool:
    """Whether a weight in bfloat16 has faster products than torch's."""
    if can_pack(weight):
        return True
    try:
        vectors = import_compiled("hookline_kernels.cpu.vector_gemm")
    except KernelError as error:
        _log.debug("no bfloat16 product with vectors: %s", error)
        return False
    return bool(vectors.takes(weight))


def _by_vectors(weight: torch.Tensor, bias: torch.Tensor | None) -> _Products | None:
    """Returns bfloat16 kernels for CPUs without a matrix unit, or None."""
    try:
        vectors = import_compiled("hookline_kernels.cpu.vector_gemm")
        packed = vectors.pack_for_vectors(weight)
        return _Products(packed, vectors.VectorGemm(packed, bias))
    except KernelError as error:
        _log.debug("no bfloat16 product with vectors: %s", error)
        return None


def _in_float32(weight: torch.Tensor, bias: torch.Tensor | None) -> _Products | None:
    """Returns float32 kernels; None without a compiler, or for another dtype."""
    try:
        vectors = import_compiled("hookline_kernels.cpu.float32_gemm")
        packed = vectors.pack_float32(weight)
        product = vectors.Float32Gemm(packed, bias)
    except KernelError as error:
        _log.debug("no float32 product: %s", error)
        return None
    try:
        tiles = import_compiled("hookline_kernels.cpu.bf16x3_gemm")
        for_many = tiles.Bf16x3Gemm(tiles.pack_bf16x3(weight), bias)
    except KernelError as error:
        _log.debug("no float32 product on the matrix unit: %s", error)
        return _Products(packed, product)
    return _Products(packed, for_many, ((for_many.least - 1, product),))


def _by_onednn(weight: torch.Tensor, bias: torch.Tensor | None) -> _Products:
    """Returns products of oneDNN or torch; kernels for few rows in bfloat16."""
    if not can_pack(weight):
        return _Products(weight, _bound(plain_linear, weight, bias))
    packed = pack(weight)
    for_all = _bound(packed_linear, packed, bias)
    try:
        skinny = import_compiled("hookline_kernels.cpu.skinny_gemm")
        gemm = import_compiled("hookline_kernels.cpu.gemm")
        few = skinny.skinny_gemm_for(packed, bias)
        if few is None:
            return _Products(packed, for_all)
        many, in_blocks = (
            gemm.Gemm(packed, bias, width=few.width, in_blocks=each)
            for each in (False, True)
        )
    except KernelError as error:
        _log.debug("no bfloat16 product on the matrix unit: %s", error)
        return _Products(packed, for_all)
    for_few = ((few.most, few), (many.most, many))
    of_blocks = BlockProduct(few.most + 1, in_blocks.of_blocks)
    return _Products(packed, for_all, for_few, of_blocks)


def _bound(
    product: Callable[..., torch.Tensor],
    weight: torch.Tensor,
    bias: torch.Tensor | None,
) -> Rows:
    def multiply(
        values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        return product(values, weight, bias, residual=residual)

    return multiply


def joined(linears: Sequence[nn.Linear]) -> FastLinear:
    """Joins layers of the same input: results lie side by side."""
    biases = [each.bias for each in linears if each.bias is not None]
    return FastLinear(
        torch.cat(tuple(each.weight for each in linears)),
        torch.cat(tuple(biases)) if biases else None,
    )


def are_joinable(linears: Sequence[object]) -> TypeGuard[Sequence[nn.Linear]]:
    """Whether all are plain linear layers of one input width, dtype and use of bias."""
    plain = [each for each in linears if type(each) is nn.Linear]
    return (
        len(plain) == len(linears)
        and len({each.in_features for each in plain}) == 1
        and len({each.weight.dtype for each in plain}) == 1
        and len({each.bias is None for each in plain}) == 1
    )
