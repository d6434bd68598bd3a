"""Products of many rows with quantized weights, on the CPU's matrix unit (AMX).

A part of a panel is expanded to bfloat16, scaled, and stays in the L1 cache while
blocks of rows are multiplied with it.
"""

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import BLOCK_BYTES, DEPTH, HEIGHT
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.finishing import AS_THEY_ARE
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import (
    SUM_BYTES,
    close_tiles,
    finish_panel,
    multiply_panel,
    open_tiles,
    own_memory,
)
from hookline_kernels.cpu.quantized_codes import (
    half_bytes,
    load_halves,
    rounded_pair,
    scaled_floats,
)
from hookline_kernels.cpu.vectors import INT64, Emit, offset
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

_MOST_BYTES = 1 << 20
"""Bytes of rows that a thread processes per pass: half of an L2 cache."""
_MOST_BLOCKS = 32
"""Maximum number of row blocks per pass."""
_PANELS = 4
"""Panels that a thread takes at a time."""
_STEPS = 26
"""Most steps of 32 inputs in a part, as `steps_at_once` divides them."""
_STEP_BYTES = DEPTH * OUTPUTS * 2
_PITCH = 4 * OUTPUTS
"""Bytes of a pair of inputs of a panel."""


def blocks_at_once(blocks: int, inputs: int) -> int:
    """Returns blocks of rows per pass: nearly equal, and within the cache."""
    most = max(1, min(_MOST_BLOCKS, _MOST_BYTES // (2 * HEIGHT * inputs)))
    parts = -(-blocks // most)
    return -(-blocks // parts)


@functools.cache
def many_rows_kernel(bits: int, has_shifts: bool, kind: int, in_blocks: bool) -> Kernel:
    """Compiles the kernel for codes of `bits` bits, from 32 rows on.

    Its arguments: inputs, outputs, rows, inputs of a group; addresses of codes, scales,
    shifts, bias, residual, values and output, 0 if absent; blocks of rows per pass,
    numbers from row to row of output and residual, and steps of a part. With a gate
    (`finishing.SILU`, …) 16 gates and 16 ups alternate, and the output is in blocks.
    """
    unit_bytes = UNIT * OUTPUTS * bits // 8
    room_bytes = _STEPS * _STEP_BYTES
    sums_bytes = (_MOST_BLOCKS + 1) * SUM_BYTES

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        inputs, outputs, rows, group = given[1], given[2], given[3], given[4]
        most, stride = given[12], given[13]
        units, groups = inputs // UNIT, inputs // group
        row_bytes, steps = 2 * inputs, inputs // DEPTH
        at_once = given[14]
        blocks, panels = (rows + HEIGHT - 1) // HEIGHT, outputs // OUTPUTS
        pieces = (blocks + most - 1) // most
        shares = (panels + _PANELS - 1) // _PANELS
        sums, room = own_memory(sums_bytes), own_memory(room_bytes)
        before = open_tiles()
        task = take(numbers, 1)
        while task < pieces * shares:
            first = task // shares * most
            last = min(first + most, blocks)
            # sums of these blocks, and sums that are being finished
            places = last - first + 1
            turn, earlier, shift, extra, target = 0, 0, 0, 0, 0
            start = task % shares * _PANELS
            for panel in range(start, min(start + _PANELS, panels)):
                codes = given[5] + panel * units * unit_bytes
                place_of_groups = 4 * OUTPUTS * panel * groups
                for begun in range(0, steps, at_once):
                    count = min(at_once, steps - begun)
                    expand(
                        codes,
                        given[6] + place_of_groups,
                        given[7] + place_of_groups,
                        room,
                        begun * (DEPTH // UNIT),
                        count * (DEPTH // UNIT),
                        group // UNIT,
                        bits,
                        has_shifts,
                    )
                    for block in range(first, last):
                        # the last rows are computed twice rather than in part
                        row = min(block * HEIGHT, rows - HEIGHT)
                        source = given[10] + row * row_bytes + begun * 2 * DEPTH
                        if in_blocks:
                            source = given[10] + (block * steps + begun) * BLOCK_BYTES
                        place = sums + (turn + block - first) % places * SUM_BYTES
                        multiply_panel(
                            source,
                            row_bytes,
                            room,
                            count,
                            place,
                            room,
                            0,
                            0,
                            earlier,
                            shift,
                            extra,
                            target,
                            stride,
                            begun,
                            in_blocks,
                            OUTPUTS,
                            kind,
                        )
                        earlier = 0
                        if begun + count < steps:
                            continue
                        earlier = place
                        if kind == AS_THEY_ARE:
                            at = 2 * (row * stride + panel * OUTPUTS)
                            shift = given[8] + 2 * panel * OUTPUTS if given[8] else 0
                            extra = given[9] + at if given[9] else 0
                            target = given[11] + at
                        else:
                            at = block * (panels // 2) + panel // 2
                            target = given[11] + at * BLOCK_BYTES + panel % 2 * DEPTH
                turn += last - first
            finish_panel(earlier, shift, extra, target, stride, kind)
            task = take(numbers, 1)
        close_tiles(before)

    variant = f"{bits}-{int(has_shifts)}-{kind}-{int(in_blocks)}"
    return Kernel(multiply, f"quantized-many-{variant}")


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
    has_shifts: Any,
) -> tuple[Signature, Emit]:
    """Writes `count` units of a panel, from `first` on, as bfloat16 [count · 4, 32, 2].

    `bits` and `has_shifts` are literals; the other arguments are addresses and counts.
    """
    given = (codes, scales, shifts, target, first, count, per_group)
    signature = types.void(*[types.intp for _ in given], bits, has_shifts)
    code_bits, is_shifted = bits.literal_value, bool(has_shifts.literal_value)
    half_size = half_bytes(code_bits)

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
            place = offset(builder, output, loop.index, UNIT // 2 * _PITCH)
            for half in range(2):
                floats = scaled_floats(
                    builder,
                    builder.add(line, INT64(half * half_size)),
                    code_bits,
                    factors[half],
                    offsets[half],
                )
                for at in range(0, UNIT, 2):
                    pair = rounded_pair(builder, *floats[at : at + 2])
                    there = INT64(at // 2 * _PITCH + half * 4 * HALF)
                    there = builder.add(place, there)
                    pointer = builder.inttoptr(there, pair.type.as_pointer())
                    builder.store(pair, pointer, align=64)
        return context.get_dummy_value()

    return signature, emit


expand: Any = intrinsic(prefer_literal=True)(_expand)
