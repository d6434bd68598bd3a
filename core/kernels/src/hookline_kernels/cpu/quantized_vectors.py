"""Products of rows in bfloat16 with quantized weights, without a matrix unit.

As in `vector_gemm`, a thread copies blocks of rows to its own memory and passes panels
by them. A part of a panel is expanded and scaled first: to float32, or rounded to
bfloat16 where products of pairs are quick.
"""

import functools
from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE, finish_sums
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import own_memory
from hookline_kernels.cpu.quantized_codes import half_bytes
from hookline_kernels.cpu.quantized_expansion import expand
from hookline_kernels.cpu.vector_panels import (
    DEPTH,
    EXPANDED,
    HEIGHT,
    OUTPUTS,
    PAIRS,
    SUM_BYTES,
    copy_block,
    has_quick_pairs,
    multiply_block,
    panel_step_bytes,
    step_bytes,
)
from hookline_kernels.quantized_weight import UNIT

_MOST_BLOCKS = 10
"""Blocks of rows for which a part of a panel is expanded once."""
_MOST_STEPS = 17
"""Most steps of 32 inputs in a part: with its rows it stays in the L2 cache."""
_FEW_BLOCKS, _FEW_STEPS = 2, 8
"""Few rows take less time than the expansion, whose result stays in the L1 cache."""
_PANELS = 4
"""Panels of a task whose rows are multiplied in parts."""
_UNITS = DEPTH // UNIT


@functools.cache
def vectors_kernel(
    bits: int, has_shifts: bool, kind: int, form: int | None = None
) -> Kernel:
    """Compiles the kernel for codes of `bits` bits and any number of rows.

    Its arguments are those of `quantized_panels`. With a gate (`finishing.SILU`, …) 16
    gates and 16 ups alternate, and the output has half as many columns. The form is
    `EXPANDED` or `PAIRS`; by default the faster.
    """
    if form is None:
        form = PAIRS if has_quick_pairs() else EXPANDED
    room_bytes = _MOST_BLOCKS * _MOST_STEPS * step_bytes(form)
    weights_bytes = _MOST_STEPS * panel_step_bytes(form)
    sums_bytes = _PANELS * _MOST_BLOCKS * SUM_BYTES
    copy_rows, expand_part = _copier(form), _expander(bits, has_shifts, form)
    multiply_part = _multiplier(kind, form)

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        steps, panels = given[1] // DEPTH, given[2] // OUTPUTS
        blocks = (given[3] + HEIGHT - 1) // HEIGHT
        pieces = (blocks + _MOST_BLOCKS - 1) // _MOST_BLOCKS
        together = (blocks + pieces - 1) // pieces
        most = _FEW_STEPS if blocks <= _FEW_BLOCKS else _MOST_STEPS
        parts = (steps + most - 1) // most
        at_once = (steps + parts - 1) // parts
        group = _PANELS if parts > 1 else 1
        groups = (panels + group - 1) // group
        room, weights = own_memory(room_bytes), own_memory(weights_bytes)
        sums = own_memory(sums_bytes)
        own = -1  # the piece that is in the thread's memory
        task = take(numbers, 1)
        while task < pieces * groups:
            piece, start = task // groups, task % groups * group
            first, last = piece * together, min((piece + 1) * together, blocks)
            for begun in range(0, steps, at_once):
                count = min(at_once, steps - begun)
                if own != piece or parts > 1:
                    copy_rows(numbers, first, last, begun, count, room)
                    own = piece
                for panel in range(start, min(start + group, panels)):
                    expand_part(numbers, panel, begun, count, weights)
                    place = sums + (panel - start) * _MOST_BLOCKS * SUM_BYTES
                    multiply_part(
                        numbers, panel, first, last, begun, count, room, weights, place
                    )
            task = take(numbers, 1)

    return Kernel(multiply, f"quantized-vectors-{bits}-{int(has_shifts)}-{kind}-{form}")


def _copier(form: int) -> Any:
    step = step_bytes(form)

    @exact
    def copy_rows(  # noqa: PLR0917 - numba passes by position
        numbers: Any, first: int, last: int, begun: int, count: int, room: int
    ) -> None:
        """Copies `count` steps of blocks to the thread's memory."""
        given = array_at(numbers, 12, np.int64)
        inputs, rows = given[1], given[3]
        for block in range(first, last):
            row = block * HEIGHT
            source = given[10] + 2 * (row * inputs + begun * DEPTH)
            target = room + (block - first) * count * step
            copy_block(source, 2 * inputs, rows - row, count, target, form)

    return copy_rows


def _expander(bits: int, has_shifts: bool, form: int) -> Any:
    unit_bytes, size = 2 * half_bytes(bits), 2 if form == PAIRS else 4

    @exact
    def expand_part(
        numbers: Any, panel: int, begun: int, count: int, weights: int
    ) -> None:
        """Expands `count` steps of a panel to the thread's memory."""
        given = array_at(numbers, 12, np.int64)
        inputs, per_group = given[1], given[4]
        place_of_groups = 4 * OUTPUTS * panel * (inputs // per_group)
        expand(
            given[5] + panel * (inputs // UNIT) * unit_bytes,
            given[6] + place_of_groups,
            given[7] + place_of_groups,
            weights,
            begun * _UNITS,
            count * _UNITS,
            per_group // UNIT,
            bits,
            size,
            has_shifts,
        )

    return expand_part


def _multiplier(kind: int, form: int) -> Any:
    step, width = step_bytes(form), 1 if kind == AS_THEY_ARE else 2

    @exact
    def multiply_part(  # noqa: PLR0917 - numba passes by position
        numbers: Any,
        panel: int,
        first: int,
        last: int,
        begun: int,
        count: int,
        room: int,
        weights: int,
        sums: int,
    ) -> None:
        """Multiplies blocks with a part; stores the sums behind the last inputs."""
        given = array_at(numbers, 12, np.int64)
        inputs, outputs, rows = given[1], given[2], given[3]
        is_last = (begun + count) * DEPTH == inputs
        bias = given[8] + 2 * panel * OUTPUTS if given[8] else 0
        for block in range(first, last):
            row, index = block * HEIGHT, block - first
            height, place = min(rows - row, HEIGHT), sums + index * SUM_BYTES
            source = room + index * count * step
            multiply_block(source, weights, count, place, begun, height, form)
            if is_last:
                at = 2 * (row * outputs + panel * OUTPUTS)
                residual = given[9] + at if given[9] else 0
                output, stride = given[11] + at // width, outputs // width
                finish_sums(place, height, bias, residual, output, stride, kind, 2)

    return multiply_part
