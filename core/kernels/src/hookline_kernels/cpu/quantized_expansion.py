"""Expands parts of panels of quantized weights to memory, scaled.

That is how many rows are multiplied: a part stays in the L1 cache while they pass it.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.bfloat_pairs import rounded_pairs, store_words
from hookline_kernels.cpu.quantized_codes import (
    half_bytes,
    load_halves,
    scaled_floats,
)
from hookline_kernels.cpu.vectors import INT64, Emit, offset
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

_PITCH = 4 * OUTPUTS
"""Bytes of a float32 input of a panel, and of a pair of inputs in bfloat16."""


def _expand(  # noqa: PLR0917 - numba passes by position
    _: object,
    codes: Any,
    scales: Any,
    shifts: Any,
    target: Any,
    first: Any,
    count: Any,
    per_group: Any,
    bits: Any,
    size: Any,
    has_shifts: Any,
) -> tuple[Signature, Emit]:
    """Writes code · scale + shift of `count` units of a panel, from `first` on.

    They are float32 [count · 8, 32] with `size` 4, and pairs of bfloat16
    [count · 4, 32, 2] with 2. `bits`, `size` and `has_shifts` are literals; the other
    arguments are addresses, the target's aligned to 64 bytes, and counts of units.
    """
    given = (codes, scales, shifts, target, first, count, per_group)
    signature = types.void(*[types.intp for _ in given], bits, size, has_shifts)
    code_bits, is_shifted = bits.literal_value, bool(has_shifts.literal_value)
    half_size, is_paired = half_bytes(code_bits), size.literal_value == 2
    unit_bytes = UNIT * _PITCH // (2 if is_paired else 1)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        panel, scale, shift, output, begin, length, units = args[:7]
        with cgutils.for_range(builder, length, intp=INT64) as loop:
            unit = builder.add(begin, loop.index)
            group = builder.udiv(unit, units)
            factors = load_halves(builder, scale, group)
            offsets = load_halves(builder, shift, group) if is_shifted else (None, None)
            line = offset(builder, panel, unit, 2 * half_size)
            place = offset(builder, output, loop.index, unit_bytes)
            for half, factor in enumerate(factors):
                own = builder.add(line, INT64(half * half_size))
                found = scaled_floats(builder, own, code_bits, factor, offsets[half])
                if is_paired:
                    pairs = zip(found[::2], found[1::2], strict=True)
                    found = [rounded_pairs(builder, *pair) for pair in pairs]
                for at, each in enumerate(found):
                    there = INT64(at * _PITCH + half * 4 * HALF)
                    store_words(builder, each, builder.add(place, there), 64)
        return context.get_dummy_value()

    return signature, emit


expand: Any = intrinsic(prefer_literal=True)(_expand)
