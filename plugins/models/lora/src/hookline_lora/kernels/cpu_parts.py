"""The two products of an adapter for some rows, tile by tile, as a kernel's parts.

Arguments of the kernel (`numbers`), as int64s: 1 the site's table, 2 the counts of
`StepRows`, 3 its starts, 4 its slots, 5 its order, 6 the values, 7 the output, 8 the
inputs, 9 the outputs, 10 the slices' table, 11 the number of slices, 12 the address of
`sched_yield`.

A site's table: address and pitch (in numbers) of the memory for A·x of few rows; then
for each slot the address of A, its ranks, and for each slice its first rank, its rank,
and the address of B. The slices' table: offset, width, block, stride, and panels.
"""

import functools
from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import SCALARS, array_at, exact
from hookline_kernels.cpu.memory import int_at
from hookline_lora.kernels.cpu_tiles import (
    ACROSS,
    PANEL,
    ROWS,
    STEP_BYTES,
    expand_tile,
    shrink_tile,
    size_of,
    sum_size_of,
)

ARGUMENTS = 13
HEAD, SLOT, PART = 2, 2, 3
"""int64s in front of the slots, of a slot without its slices, and of a slice in it."""
SLICE = 5
"""int64s of a slice."""
_SCALARS = {dtype.itemsize: scalar for dtype, scalar in SCALARS.items()}


@functools.cache
def shrinking(form: int) -> Any:
    """Makes the function that computes A·x of rows, in tiles of this form."""
    size, sum_size = size_of(form), sum_size_of(form)
    step = STEP_BYTES // size
    multiply, copy_rest = _shrink_ranks(form), _copy_rest(form)

    @exact
    def shrink(  # noqa: PLR0917 - numba passes by position
        numbers: int,
        slot: int,
        first: int,
        last: int,
        begin: int,
        end: int,
        sums: int,
        pitch: int,
        room: int,
    ) -> None:
        """Computes ranks `begin` … `end` − 1 of rows `first` … `last` − 1 of the order.

        `sums` is the place of the first row's rank 0; rows are `pitch` bytes apart.
        `room` is memory for the last inputs of a tile's rows.
        """
        inputs, values, rest = int_at(numbers, 8), int_at(numbers, 6), 0
        factor_bytes = (inputs + step - 1) // step * STEP_BYTES
        row = first
        while row < last:
            high = ROWS if row + ROWS <= last else 2 if row + 2 <= last else 1
            order, target = int_at(numbers, 5) + 4 * row, sums + (row - first) * pitch
            if inputs % step:
                copy_rest(values, order, inputs, high, room)
                rest = room
            rank = begin
            while rank < end:
                wide = ACROSS if rank + ACROSS <= end else 1
                factors = int_at(slot, 0) + rank * factor_bytes
                place = target + rank * sum_size
                multiply(
                    values, order, factors, factor_bytes, inputs, rest, place, pitch,
                    high, wide,
                )  # fmt: skip
                rank += wide
            row += high

    return shrink


def _copy_rest(form: int) -> Any:
    size = size_of(form)
    step, scalar = STEP_BYTES // size, _SCALARS[size]

    @exact
    def copy_rest(values: int, order: int, inputs: int, rows: int, room: int) -> None:
        """Copies the inputs that fill no step, with zeros behind them."""
        indices = array_at(order, rows, np.int32)
        first = inputs // step * step
        for row in range(rows):
            source = array_at(values + indices[row] * inputs * size, inputs, scalar)
            target = array_at(room + row * STEP_BYTES, step, scalar)
            target[:] = 0
            for index in range(first, inputs):
                target[index - first] = source[index]

    return copy_rest


def _shrink_ranks(form: int) -> Any:
    size = size_of(form)
    step = STEP_BYTES // size

    @exact
    def shrink_ranks(  # noqa: PLR0917 - numba passes by position
        values: int,
        order: int,
        factors: int,
        factor_bytes: int,
        inputs: int,
        rest: int,
        sums: int,
        pitch: int,
        high: int,
        wide: int,
    ) -> None:
        """Computes a tile; its numbers of rows and ranks must be constants."""
        apart, steps = inputs * size, inputs // step
        if wide == ACROSS:
            if high == ROWS:
                shrink_tile(
                    values, apart, order, factors, factor_bytes, steps, rest, sums,
                    pitch, ROWS, ACROSS, form,
                )  # fmt: skip
            elif high == 2:
                shrink_tile(
                    values, apart, order, factors, factor_bytes, steps, rest, sums,
                    pitch, 2, ACROSS, form,
                )  # fmt: skip
            else:
                shrink_tile(
                    values, apart, order, factors, factor_bytes, steps, rest, sums,
                    pitch, 1, ACROSS, form,
                )  # fmt: skip
            return
        for row in range(high):
            own = rest + row * STEP_BYTES if rest else 0
            shrink_tile(
                values, apart, order + 4 * row, factors, factor_bytes, steps, own,
                sums + row * pitch, pitch, 1, 1, form,
            )  # fmt: skip

    return shrink_ranks


@functools.cache
def expanding(form: int) -> Any:
    """Makes the function that adds B·t to outputs of rows, in tiles of this form."""
    size, sum_size = size_of(form), sum_size_of(form)
    add_panels, add_edge = _expand_panels(form), _expand_edge(form)

    @exact
    def expand(  # noqa: PLR0917 - numba passes by position
        numbers: int,
        slot: int,
        first: int,
        last: int,
        begin: int,
        end: int,
        sums: int,
        pitch: int,
        room: int,
    ) -> None:
        """Adds to panels `begin` … `end` − 1 of all slices, of rows of the order.

        `sums` and `pitch` are those of `shrink`; `room` is memory for a panel's
        outputs.
        """
        base = 0
        for index in range(int_at(numbers, 11)):
            own = int_at(numbers, 10) + 8 * SLICE * index
            part = slot + 8 * (SLOT + PART * index)
            width, block, stride = int_at(own, 1), int_at(own, 2), int_at(own, 3)
            rank, panels = int_at(part, 1), int_at(own, 4)
            low, high = max(begin - base, 0), min(end - base, panels)
            base += panels
            if rank == 0 or low >= high:
                continue
            whole = width // PANEL if block == 0 or block == PANEL else 0  # noqa: PLR1714 - numba
            whole = max(min(whole, high), low)
            here = sums + sum_size * int_at(part, 0)
            apart = PANEL if block == 0 else stride
            output = int_at(numbers, 7) + size * (int_at(own, 0) + low * apart)
            weights = int_at(part, 2) + low * PANEL * rank * size
            add_panels(
                numbers, output, apart * size, first, last, whole - low,
                weights, rank, here, pitch,
            )  # fmt: skip
            for panel in range(whole, high):
                add_edge(numbers, own, part, panel, first, last, here, pitch, room)

    return expand


def _expand_panels(form: int) -> Any:
    size = size_of(form)

    @exact
    def expand_panels(  # noqa: PLR0917 - numba passes by position
        numbers: int,
        output: int,
        apart: int,
        first: int,
        last: int,
        panels: int,
        weights: int,
        rank: int,
        sums: int,
        pitch: int,
    ) -> None:
        """Adds to panels whose outputs lie side by side, the first at `output`."""
        row_bytes, order = int_at(numbers, 9) * size, int_at(numbers, 5)
        panel = 0
        while panel < panels:
            wide = ACROSS if panel + ACROSS <= panels else 1
            target = output + panel * apart
            factors = weights + panel * PANEL * rank * size
            row = first
            while row < last:
                high = ROWS if row + ROWS <= last else 2 if row + 2 <= last else 1
                own, t = order + 4 * row, sums + (row - first) * pitch
                # The numbers of rows and panels must be constants.
                if wide == ACROSS:
                    if high == ROWS:
                        expand_tile(
                            target, row_bytes, own, apart, t, pitch, factors, rank,
                            ROWS, ACROSS, form,
                        )  # fmt: skip
                    elif high == 2:
                        expand_tile(
                            target, row_bytes, own, apart, t, pitch, factors, rank,
                            2, ACROSS, form,
                        )  # fmt: skip
                    else:
                        expand_tile(
                            target, row_bytes, own, apart, t, pitch, factors, rank,
                            1, ACROSS, form,
                        )  # fmt: skip
                else:
                    for each in range(high):
                        expand_tile(
                            target, row_bytes, own + 4 * each, apart,
                            t + each * pitch, pitch, factors, rank, 1, 1, form,
                        )  # fmt: skip
                row += high
            panel += wide

    return expand_panels


def _expand_edge(form: int) -> Any:
    size = size_of(form)
    scalar = _SCALARS[size]

    @exact
    def expand_edge(  # noqa: PLR0917 - numba passes by position
        numbers: int,
        own: int,
        part: int,
        panel: int,
        first: int,
        last: int,
        sums: int,
        pitch: int,
        room: int,
    ) -> None:
        """Adds to a panel that is not full, or whose outputs do not lie side by side.

        They are copied to `room` and back.
        """
        start, width, block = int_at(own, 0), int_at(own, 1), int_at(own, 2)
        stride, outputs, rank = int_at(own, 3), int_at(numbers, 9), int_at(part, 1)
        count = min(width - panel * PANEL, PANEL)
        order = array_at(int_at(numbers, 5), last, np.int32)
        copied = array_at(room, PANEL, scalar)
        weights = int_at(part, 2) + panel * PANEL * rank * size
        if block == 0:
            block, stride = width, width
        for row in range(first, last):
            at = int_at(numbers, 7) + size * (order[row] * outputs + start)
            line = array_at(at, outputs - start, scalar)
            for each in range(count):
                output = panel * PANEL + each
                copied[each] = line[output // block * stride + output % block]
            for each in range(count, PANEL):
                copied[each] = 0
            t = sums + (row - first) * pitch
            expand_tile(
                room, 0, int_at(numbers, 5), 0, t, pitch, weights, rank, 1, 1, form
            )
            for each in range(count):
                output = panel * PANEL + each
                line[output // block * stride + output % block] = copied[each]

    return expand_edge
