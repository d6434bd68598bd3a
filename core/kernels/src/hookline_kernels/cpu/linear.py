"""Linear layers by torch; in bfloat16 with weights that oneDNN packs once.

A residual is added inside the product, before the result is rounded.

Paths of products in bfloat16, the fastest first: on the matrix unit `skinny_gemm` for
up to 32 rows, then `gemm` for up to 512, or any number in blocks; without the unit
`vector_gemm`; then packed weights here, for more rows and for weights that fill no
panels. The slowest is `plain_linear`: torch packs the weight in every product, or
converts it where it has no kernel for bfloat16.
"""

import torch
from torch.nn import functional

_TOKENS = 256
"""Number of rows for which weights are packed; nearly as fast for others."""


def can_pack(weight: torch.Tensor) -> bool:
    """Whether packing pays: bfloat16, on a CPU with products of bfloat16.

    Weights in float32 have kernels with their own packing (`float32_gemm`).
    """
    return (
        weight.dtype == torch.bfloat16
        and weight.device.type == "cpu"
        and not weight.is_mkldnn
        and torch.backends.mkldnn.is_available()
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001
    )


def pack(weight: torch.Tensor) -> torch.Tensor:
    """Copies a weight [out, in] into oneDNN's layout, which is opaque."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _TOKENS)  # noqa: SLF001
    assert isinstance(packed, torch.Tensor)
    return packed


def packed_linear(
    values: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns values · weightᵀ + bias + residual.

    Args:
        values: [..., in].
        weight: From `pack`.
        bias: [out].
        residual: [..., out].
    """
    product = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001
    if residual is None:
        result = product(values, weight, bias, "none", [], "")
    else:
        result = product.binary(values, residual, weight, bias, "add")
    assert isinstance(result, torch.Tensor)
    return result


def plain_linear(
    values: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiplies [T, in] by a plain weight; adds the residual."""
    if residual is None:
        return functional.linear(values, weight, bias)
    result = torch.addmm(residual, values, weight.t())
    return result if bias is None else result.add_(bias)
