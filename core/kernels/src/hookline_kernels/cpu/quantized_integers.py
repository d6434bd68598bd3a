"""Products of any number of rows with quantized weights, as integers.

A thread quantizes blocks of rows to its own memory while it reads them (`integer_rows`)
and passes panels by them, whose codes are expanded in registers at most: few rows read
a weight at the speed of memory, and many compute twice as fast as in bfloat16. Several
rows are multiplied by tiles where the CPU has a matrix unit (AMX), all others by
vectors; the results have the same bits.
"""

import functools
from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE, finish_sums
from hookline_kernels.cpu.integer_blocks import multiply_bytes
from hookline_kernels.cpu.integer_dots import zero_of
from hookline_kernels.cpu.integer_rows import blocks_of, quantize_rows
from hookline_kernels.cpu.integer_tiles import multiply_in_tiles, open_byte_tiles
from hookline_kernels.cpu.launching import Kernel, Numbers
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import close_tiles, own_memory, uses_tiles
from hookline_kernels.cpu.row_tasks import MOST_BLOCKS, PANELS, ROOM, divide
from hookline_kernels.quantized_weight import OUTPUTS


def divide_rows(numbers: Numbers, group: int) -> None:
    """Sets how a product is divided: blocks, groups of inputs and panels of a task.

    Args:
        numbers: The kernel's arguments; these are the last three.
        group: Inputs of a group of activations.
    """
    shape = blocks_of(group, in_tiles=uses_tiles())
    blocks, groups = -(-numbers[3] // shape.height), numbers[1] // group
    numbers[12], numbers[14], numbers[13] = divide(blocks, groups, shape.group_bytes)


@functools.cache
def integers_kernel(
    bits: int, group: int, size: int, has_shifts: bool, kind: int, *, in_tiles: bool
) -> Kernel:
    """Compiles the kernel for codes of `bits` bits and values of `size` bytes.

    Its arguments are those of `block_gemm`, with groups in the place of steps. Groups
    of activations have `group` inputs. With a gate (`finishing.SILU`, …) 16 gates and
    16 ups alternate, and the output has half as many columns. With `in_tiles` tiles
    multiply, which the CPU has to have.
    """
    read_rows = _reader(bits, group, size, in_tiles)
    multiply_panel = _multiplier(bits, group, size, has_shifts, kind, in_tiles)
    shape = blocks_of(group, in_tiles=in_tiles)
    height, step, panel_bytes = shape.height, shape.step, MOST_BLOCKS * shape.sum_bytes
    sums_bytes = PANELS * panel_bytes

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        groups, panels, together = given[1] // group, given[2] // OUTPUTS, given[12]
        blocks = (given[3] + height - 1) // height
        pieces = (blocks + together - 1) // together
        at_once, in_task = given[13], given[14]
        tasks = (panels + in_task - 1) // in_task
        room, sums = own_memory(ROOM), own_memory(sums_bytes)
        before = 0
        if in_tiles:
            before = open_byte_tiles(step)
        own = -1  # the piece that is in the thread's memory
        task = take(numbers, 1)
        while task < pieces * tasks:
            piece, start = task // tasks, task % tasks * in_task
            first, last = piece * together, min((piece + 1) * together, blocks)
            for begun in range(0, groups, at_once):
                count = min(at_once, groups - begun)
                if own != piece or at_once < groups:
                    read_rows(numbers, first, last, begun, count, room)
                    own = piece
                for panel in range(start, min(start + in_task, panels)):
                    place = sums + (panel - start) * panel_bytes
                    multiply_panel(
                        numbers, panel, first, last, begun, count, room, place
                    )
            task = take(numbers, 1)
        if in_tiles:
            close_tiles(before)

    names = (bits, group, size, int(has_shifts), kind, int(in_tiles))
    return Kernel(multiply, f"quantized-integers-{'-'.join(map(str, names))}")


def _reader(bits: int, group: int, size: int, in_tiles: bool) -> Any:
    shape = blocks_of(group, in_tiles=in_tiles)
    height, pitch = shape.height, shape.group_bytes
    zero = 0 if in_tiles else zero_of(bits)

    @exact
    def read_rows(  # noqa: PLR0917 - numba passes by position
        numbers: Any, first: int, last: int, begun: int, count: int, room: int
    ) -> None:
        """Quantizes `count` groups of blocks to the thread's memory."""
        given = array_at(numbers, 15, np.int64)
        inputs, rows = given[1], given[3]
        for block in range(first, last):
            row = block * height
            source = given[10] + size * (row * inputs + begun * group)
            target = room + (block - first) * count * pitch
            high = min(height, rows - row)
            quantize_rows(
                source,
                size * inputs,
                high,
                count,
                target,
                group,
                in_tiles,
                zero,
                size,
            )

    return read_rows


def _multiplier(  # noqa: PLR0917 - called at one place
    bits: int, group: int, size: int, has_shifts: bool, kind: int, in_tiles: bool
) -> Any:
    shape = blocks_of(group, in_tiles=in_tiles)
    most, pitch, sum_bytes = shape.height, shape.group_bytes, shape.sum_bytes
    width = 1 if kind == AS_THEY_ARE else 2
    multiply_block = multiply_in_tiles if in_tiles else multiply_bytes

    @exact
    def multiply_panel(  # noqa: PLR0917 - numba passes by position
        numbers: Any,
        panel: int,
        first: int,
        last: int,
        begun: int,
        count: int,
        room: int,
        sums: int,
    ) -> None:
        """Multiplies blocks with a panel; stores the sums behind the last inputs."""
        given = array_at(numbers, 15, np.int64)
        inputs, outputs, rows, per_scale = given[1], given[2], given[3], given[4]
        place_of_scales = 4 * OUTPUTS * panel * (inputs // per_scale)
        codes = given[5] + OUTPUTS * bits * (panel * inputs + begun * group) // 8
        is_last = (begun + count) * group == inputs
        bias = given[8] + size * panel * OUTPUTS if given[8] else 0
        for block in range(first, last):
            row, index = block * most, block - first
            height, place = min(rows - row, most), sums + index * sum_bytes
            multiply_block(
                room + index * count * pitch,
                codes,
                given[6] + place_of_scales,
                given[7] + place_of_scales,
                count,
                begun,
                per_scale // group,
                place,
                height,
                group,
                bits,
                has_shifts,
            )
            if is_last:
                at = size * (row * outputs + panel * OUTPUTS)
                residual = given[9] + at if given[9] else 0
                output, stride = given[11] + at // width, outputs // width
                finish_sums(place, height, bias, residual, output, stride, kind, size)

    return multiply_panel
