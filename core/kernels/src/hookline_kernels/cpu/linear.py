"""Linear layers by torch; in bfloat16 with weights that oneDNN has packed once.

A plain weight is packed again in every product. A residual is added inside of the
product, before its result is rounded.
"""

import torch
from torch.nn import functional

_TOKENS = 256
"""For which weights are packed: as fast as any for more, and nearly so for one."""


def can_pack(weight: torch.Tensor) -> bool:
    """Whether packing this weight pays: bfloat16, on a processor with products of it.

    For float32 there are panels of our own, where there is a compiler.
    """
    return (
        weight.dtype == torch.bfloat16
        and weight.device.type == "cpu"
        and not weight.is_mkldnn
        and torch.backends.mkldnn.is_available()
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001
    )


def pack(weight: torch.Tensor) -> torch.Tensor:
    """A copy of [out, in] that only the functions here can read."""
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
    """Values · weightᵀ + bias, and the residual.

    Args:
        values: [..., in].
        weight: Of `pack`.
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
    """The same with a plain weight, of [T, in]."""
    if residual is None:
        return functional.linear(values, weight, bias)
    result = torch.addmm(residual, values, weight.t())
    return result if bias is None else result.add_(bias)
