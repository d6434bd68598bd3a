"""Weights of linear layers in 8 or 4 bits, as kernels read them.

A weight is code · scale + shift: codes are signed integers, one scale (and perhaps one
shift) belongs to a group of inputs of one output. Kernels read panels of 32 outputs; a
unit of a panel is 8 inputs of two halves of 16 outputs. Products of integers read quads
of inputs, so that 8-bit codes lie in another order for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hookline_kernels.failure import KernelError

OUTPUTS = 32
"""Outputs in a panel."""
HALF = 16
"""Outputs in each half of a panel."""
UNIT = 8
"""Inputs in a unit."""
LEAST_GROUP = 32
"""Groups are multiples of as many inputs."""
QUADS = (0, 4, 1, 5, 2, 6, 3, 7)
"""Inputs of a unit's two quads: those of the halves of bytes of 4-bit codes."""
FLOAT_BITS, BYTE_BITS = 16, 8
"""Bits of activations that are floating point, and of those that become integers."""
MOST_ACTIVATION = 127
"""Largest code of an activation; the least is its negative."""
LEAST_ACTIVATION = 1e-30
"""Groups of smaller activations become zero: their scales have no inverse."""
_ACTIVATION_GROUPS = (128, 64, LEAST_GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedWeight:
    """A packed weight [out, in].

    Attributes:
        codes: uint8 [out ÷ 32, in ÷ 8, 2, 16 · bits]: halves of units. With 8 bits a
            half is [8 inputs, 16 outputs]; with 4 bits it is 16-bit words [16 outputs,
            2], where word p has the inputs 2 j + p, j = 0 … 3, from the lowest bits on.
            For products of integers 8-bit codes are [out ÷ 32, in ÷ 4, 2, 16 · 4]:
            quads of inputs, in the order of `QUADS`, of all outputs of a panel.
        scales: float32 [out ÷ 32, groups, 2, 16].
        shifts: The same shape; None if all are zero.
        bits: 8 or 4.
        order: int64 [in]: index of the input that each column belongs to; None if they
            are in order.
        activation_bits: `BYTE_BITS` if activations become integers, too, each group of
            a token's with a scale of its own; otherwise `FLOAT_BITS`.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    shifts: torch.Tensor | None
    bits: int
    order: torch.Tensor | None = None
    activation_bits: int = FLOAT_BITS

    @property
    def out_features(self) -> int:
        return self.codes.shape[0] * OUTPUTS

    @property
    def in_features(self) -> int:
        return self.codes[0].numel() * 8 // (OUTPUTS * self.bits)

    @property
    def group_size(self) -> int:
        """Inputs of a group."""
        return self.in_features // self.scales.shape[1]

    @property
    def activation_group(self) -> int:
        """Inputs of a group of activations that become integers."""
        size = self.group_size
        return next(each for each in _ACTIVATION_GROUPS if size % each == 0)

    @property
    def nbytes(self) -> int:
        parts = (self.codes, self.scales, self.shifts, self.order)
        return sum(part.nbytes for part in parts if part is not None)


def pack(
    codes: torch.Tensor,
    scales: torch.Tensor,
    shifts: torch.Tensor | None = None,
    *,
    bits: int,
    order: torch.Tensor | None = None,
    activation_bits: int = FLOAT_BITS,
) -> QuantizedWeight:
    """Packs a weight.

    Args:
        codes: int8 [out, in], -2^(bits - 1) … 2^(bits - 1) - 1.
        scales: float32 [out, groups].
        shifts: The same shape, or None.
        bits: 8 or 4.
        order: Index of the input that each column belongs to, or None.
        activation_bits: `FLOAT_BITS` or `BYTE_BITS`.

    Raises:
        KernelError: No kernel supports the shape.
    """
    outputs, inputs = codes.shape
    group, rest = divmod(inputs, scales.shape[1])
    if outputs % OUTPUTS or rest or group % LEAST_GROUP:
        raise KernelError(
            f"no quantized weight of {outputs} by {inputs}, {scales.shape[1]} groups: "
            f"outputs and inputs of a group must be multiples of {LEAST_GROUP}"
        )
    panels, units = outputs // OUTPUTS, inputs // UNIT
    if bits == 8 and activation_bits == BYTE_BITS:
        quads = codes.view(panels, OUTPUTS, units, UNIT)[..., QUADS]
        quads = quads.view(panels, OUTPUTS, units * 2, 4).transpose(1, 2)
        packed = quads.reshape(panels, units * 2, 2, -1).view(torch.uint8)
    elif bits == 8:
        shape = codes.view(panels, 2, HALF, units, UNIT).permute(0, 3, 1, 4, 2)
        packed = shape.reshape(panels, units, 2, -1).view(torch.uint8)
    else:
        nibbles = codes.view(torch.uint8).view(panels, 2, HALF, units, 4, 2)
        nibbles = nibbles.permute(0, 3, 1, 2, 5, 4) & 15
        packed = nibbles[..., ::2] | nibbles[..., 1::2] << 4
        packed = packed.reshape(panels, units, 2, -1)
    sides = [
        None if each is None else _lay_groups(each.float()) for each in (scales, shifts)
    ]
    assert sides[0] is not None
    return QuantizedWeight(
        codes=packed.contiguous(),
        scales=sides[0],
        shifts=sides[1],
        bits=bits,
        order=order,
        activation_bits=activation_bits,
    )


def dequantize(weight: QuantizedWeight) -> torch.Tensor:
    """Returns the weight, float32 [out, in], with its inputs in order."""
    panels, units = len(weight.codes), weight.in_features // UNIT
    if weight.bits == 8 and weight.activation_bits == BYTE_BITS:
        parts = weight.codes.view(torch.int8).view(panels, units, 2, OUTPUTS, 4)
        quads = parts.permute(0, 3, 1, 2, 4).reshape(panels, OUTPUTS, units, UNIT)
        codes = torch.empty_like(quads)
        codes[..., QUADS] = quads
    elif weight.bits == 8:
        parts = weight.codes.view(torch.int8).view(panels, units, 2, UNIT, HALF)
        codes = parts.permute(0, 2, 4, 1, 3)
    else:
        nibbles = torch.stack((weight.codes & 15, weight.codes >> 4), -1)
        signed = (nibbles ^ 8).view(torch.int8) - 8
        parts = signed.view(panels, units, 2, HALF, 2, 4)
        codes = parts.permute(0, 2, 3, 1, 5, 4)
    outputs, inputs = weight.out_features, weight.in_features
    groups = weight.scales.shape[1]
    found = codes.reshape(outputs, groups, -1).float()
    found *= _read_groups(weight.scales)[..., None]
    if weight.shifts is not None:
        found += _read_groups(weight.shifts)[..., None]
    found = found.view(outputs, inputs)
    if weight.order is None:
        return found
    ordered = torch.empty_like(found)
    ordered[:, weight.order] = found
    return ordered


def as_integers(values: torch.Tensor, group: int) -> torch.Tensor:
    """Returns values [..., in] as products of integers see them, in their dtype.

    Each group of inputs is rounded to 8-bit codes times the scale of its largest
    number. Kernels have the same codes; their scales are not rounded to the dtype.
    """
    codes, scales = activation_codes(values, group)
    return (codes * scales).flatten(-2).to(values.dtype)


def activation_codes(
    values: torch.Tensor, group: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns whole numbers [..., groups, group] and scales [..., groups, 1]."""
    numbers = values.float().unflatten(-1, (-1, group))
    peak = numbers.abs().amax(-1, keepdim=True)
    inverse = torch.full_like(peak, MOST_ACTIVATION).div_(peak)
    inverse[peak < LEAST_ACTIVATION] = 0
    codes = (numbers * inverse).round_()
    return codes, peak * torch.tensor(1 / MOST_ACTIVATION)


def are_alike(weights: Sequence[QuantizedWeight]) -> bool:
    """Whether weights of the same input can be joined."""
    first = weights[0]
    return all(
        each.bits == first.bits
        and each.in_features == first.in_features
        and each.group_size == first.group_size
        and each.activation_bits == first.activation_bits
        and (each.shifts is None) == (first.shifts is None)
        and _is_same_order(each.order, first.order)
        for each in weights
    )


def joined(weights: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """Joins weights that are alike: results lie side by side."""
    shifts = [each.shifts for each in weights if each.shifts is not None]
    return QuantizedWeight(
        codes=torch.cat([each.codes for each in weights]),
        scales=torch.cat([each.scales for each in weights]),
        shifts=torch.cat(shifts) if shifts else None,
        bits=weights[0].bits,
        order=weights[0].order,
        activation_bits=weights[0].activation_bits,
    )


def alternating(first: QuantizedWeight, second: QuantizedWeight) -> QuantizedWeight:
    """Joins two weights that are alike: 16 outputs of each alternate."""
    sides = (first, second)
    shifts = [each.shifts for each in sides if each.shifts is not None]
    return QuantizedWeight(
        codes=_alternate([each.codes for each in sides]),
        scales=_alternate([each.scales for each in sides]),
        shifts=_alternate(shifts) if shifts else None,
        bits=first.bits,
        order=first.order,
        activation_bits=first.activation_bits,
    )


def _lay_groups(numbers: torch.Tensor) -> torch.Tensor:
    """[out, groups] → [out ÷ 32, groups, 2, 16]."""
    parts = numbers.view(-1, 2, HALF, numbers.shape[1]).permute(0, 3, 1, 2)
    return parts.contiguous()


def _read_groups(numbers: torch.Tensor) -> torch.Tensor:
    """The reverse of `_lay_groups`."""
    panels, groups = numbers.shape[:2]
    return numbers.permute(0, 2, 3, 1).reshape(panels * OUTPUTS, groups)


def _alternate(sides: Sequence[torch.Tensor]) -> torch.Tensor:
    """[panels, n, 2, m] each → [2 panels, n, 2, m]: halves of panels alternate."""
    halves = [each.transpose(1, 2).flatten(0, 1) for each in sides]
    return torch.stack(halves, 2).contiguous()


def _is_same_order(left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
    if left is None or right is None:
        return left is right
    return torch.equal(left, right)
