"""The loop over panels and blocks of rows, for all products of many rows on tiles.

A thread takes some panels, and as many blocks of rows as fit into its L2 cache. While a
block is multiplied with a panel, or a part of one, earlier sums are finished and the
next panel is prefetched, so that the matrix unit (AMX) waits for neither.

Arguments of the kernels: inputs, outputs, rows, inputs of a group; addresses of
weights, scales, shifts, bias, residual, values and output, 0 if absent; blocks of rows
per task, steps of 32 inputs per part, and panels per task.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hookline_kernels.cpu.amx import BLOCK_BYTES, DEPTH, HEIGHT
from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.finishing import AS_THEY_ARE, finish_sums
from hookline_kernels.cpu.launching import Kernel, Numbers
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import (
    OUTPUTS,
    SUM_BYTES,
    close_tiles,
    multiply_panel,
    open_tiles,
    own_memory,
)

_MOST_BYTES = 1 << 20
"""Bytes of rows that a thread processes per pass: half of an L2 cache."""
_PANELS = 4
"""Maximum number of panels that a thread processes per pass."""
_TASKS = 2
"""Tasks that each thread should find at least."""
_MOST_BLOCKS = _MOST_BYTES // (2 * HEIGHT * DEPTH * 27)
"""Maximum number of row blocks per pass for wide inputs, multiplied in parts."""


class PanelSource(NamedTuple):
    """Where a kernel's panels are: in memory, or expanded into a thread's memory.

    The functions are compiled by numba, and take the address of the kernel's arguments.
    """

    part: Any
    """(arguments, panel, first step, steps, room) → address of these steps."""
    ahead: Any
    """(arguments, panel) → address of the whole panel, to prefetch it."""
    lines: int
    """Cache lines of 32 inputs that are prefetched."""
    width: int = OUTPUTS
    """Outputs that lie side by side in memory, 32 or 64."""
    room_bytes: int = 1
    """Bytes of a thread's memory that a part needs."""


def divide_blocks(numbers: Numbers, threads: int) -> None:
    """Sets how a product of this size is divided into tasks for some threads."""
    inputs, outputs, rows = numbers[1:4]
    blocks = -(-rows // HEIGHT)
    most = max(1, _MOST_BYTES // (2 * HEIGHT * inputs))
    # nearly equal, and within the cache
    together = -(-blocks // -(-blocks // most))
    numbers[12] = together
    panels = -(-blocks // together) * outputs // OUTPUTS
    numbers[14] = min(max(panels // (_TASKS * threads), 1), _PANELS)


def blocks_kernel(
    source: PanelSource, *, kind: int, in_blocks: bool, variant: str
) -> Kernel:
    """Compiles a kernel for 32 rows and more.

    Args:
        source: Where its panels are.
        kind: `AS_THEY_ARE`, `SILU` or `GELU_TANH`. With a gate, 16 gates and 16 ups
            alternate in the weight, and the output is in blocks.
        in_blocks: Rows are in blocks, as norms and gates write them.
        variant: Distinguishes the kernel in the disk cache.
    """
    return Kernel(_multiplication(source, kind, in_blocks=in_blocks), variant)


def _multiplication(
    source: PanelSource, kind: int, *, in_blocks: bool
) -> Callable[[Any], None]:
    """Returns the loop, which numba compiles; see `blocks_kernel`."""
    part_of, ahead_of, lines_of_step, width, room_bytes = source
    # only products in parts keep the sums of all blocks
    sums_bytes = SUM_BYTES * (_MOST_BLOCKS + 1 if in_blocks or room_bytes > 1 else 2)

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        inputs, outputs, rows = given[1], given[2], given[3]
        most, at_once, together = given[12], given[13], given[14]
        row_bytes, steps = 2 * inputs, inputs // DEPTH
        blocks, panels = (rows + HEIGHT - 1) // HEIGHT, outputs // OUTPUTS
        pieces = (blocks + most - 1) // most
        groups = (panels + together - 1) // together
        stride = outputs if kind == AS_THEY_ARE else DEPTH
        sums, room, before = (
            own_memory(sums_bytes),
            own_memory(room_bytes),
            open_tiles(),
        )
        task = take(numbers, 1)
        while task < pieces * groups:
            first = task // groups * most
            last = min(first + most, blocks)
            lines = -(-lines_of_step // (last - first))
            # sums of these blocks, and sums that are being finished
            places = 2 if at_once == steps else last - first + 1
            turn, earlier, bias, residual, output = 0, 0, 0, 0, 0
            start = task % groups * together
            end = min(start + together, panels)
            for panel in range(start, end):
                coming = panel + 1
                if coming == end:
                    # taken early, so that its first panel is prefetched
                    task = take(numbers, 1)
                    coming = task % groups * together
                ahead, line = ahead_of(numbers, coming), 0
                for begun in range(0, steps, at_once):
                    count = min(at_once, steps - begun)
                    weights = part_of(numbers, panel, begun, count, room)
                    for block in range(first, last):
                        # the last rows are computed twice rather than in part
                        row = min(block * HEIGHT, rows - HEIGHT)
                        values = given[10] + row * row_bytes + begun * 2 * DEPTH
                        if in_blocks:
                            values = given[10] + (block * steps + begun) * BLOCK_BYTES
                        place = sums + (turn + block - first) % places * SUM_BYTES
                        multiply_panel(
                            values,
                            row_bytes,
                            weights,
                            count,
                            place,
                            ahead,
                            line,
                            lines,
                            earlier,
                            bias,
                            residual,
                            output,
                            stride,
                            begun,
                            in_blocks,
                            width,
                            kind,
                        )
                        line, earlier = line + count * lines, 0
                        if begun + count < steps:
                            continue
                        earlier = place
                        bias, residual, output = _destination(
                            given, kind, row, block, panel
                        )
                turn += last - first
            finish_sums(earlier, HEIGHT, bias, residual, output, stride, kind, 2)
        close_tiles(before)

    return multiply


@exact
def _destination(given: Any, kind: int, row: int, block: int, panel: int) -> Any:
    """Returns the addresses of bias, residual and output of some rows of a panel."""
    outputs = given[2]
    if kind == AS_THEY_ARE:
        at = 2 * (row * outputs + panel * OUTPUTS)
        bias = given[8] + 2 * panel * OUTPUTS if given[8] else 0
        residual = given[9] + at if given[9] else 0
        return bias, residual, given[11] + at
    at = block * (outputs // OUTPUTS // 2) + panel // 2
    return 0, 0, given[11] + at * BLOCK_BYTES + panel % 2 * DEPTH
