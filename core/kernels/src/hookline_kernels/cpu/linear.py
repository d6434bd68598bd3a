"""Linear layers on CPU whose weights oneDNN has packed once, for its own blocks.

A plain weight is packed again in every product. Activations and a factor are applied
inside of the product, before its result is rounded.
"""

import torch

_TOKENS = 16
"""For which weights are packed: as fast as any for more, and nearly so for one."""

ACTIVATIONS = {
    "silu": ("swish", None),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", None),
}
"""By name, as oneDNN calls them."""


def can_pack(weight: torch.Tensor) -> bool:
    """Whether packing this weight pays: bfloat16, on a processor with products of it.

    In float32 the gain for several tokens is a loss for one.
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
    activation: str | None = None,
    factor: torch.Tensor | None = None,
) -> torch.Tensor:
    """Values · weightᵀ + bias, then the activation or times the factor.

    Args:
        values: [..., in].
        weight: Of `pack`.
        bias: [out].
        activation: One of `ACTIVATIONS`.
        factor: [..., out]; not together with an activation.
    """
    product = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001
    if factor is not None:
        result = product.binary(values, factor, weight, bias, "mul")
    else:
        name, kind = ACTIVATIONS[activation] if activation else ("none", "")
        result = product(values, weight, bias, name, [], kind)
    assert isinstance(result, torch.Tensor)
    return result
