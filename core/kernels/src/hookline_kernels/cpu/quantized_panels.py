"""Multiplies all rows with one panel of a quantized weight after another.

That is how a few rows are multiplied: the codes of a panel are read once, at the speed
of memory, and each thread takes whole panels.

Arguments of the kernels, of these and of `quantized_rows`: inputs, outputs, rows,
inputs of a group; addresses of codes, scales, shifts, bias, residual, values and
output, 0 if absent.
"""

from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import own_memory
from hookline_kernels.cpu.quantized_codes import half_bytes
from hookline_kernels.cpu.quantized_sums import SUMS_BYTES, sum_groups
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT


def panels_kernel(
    name: str, multiply_panel: Any, bits: int, size: int, has_shifts: bool
) -> Kernel:
    """Compiles a kernel.

    Args:
        name: Distinguishes `multiply_panel` in the disk cache.
        multiply_panel: An intrinsic that multiplies all rows with a panel. It takes
            addresses, 0 if absent: of values, and of the panel's codes, scales, shifts,
            bias, residual and output, and of the sums of the values' groups; counts:
            inputs, outputs, inputs of a group, rows; and the literals that follow.
        bits: Bits of a code.
        size: Bytes of a number of values, bias, residual and output.
        has_shifts: Whether the weight has shifts.
    """
    unit_bytes = 2 * half_bytes(bits)
    room = SUMS_BYTES if has_shifts else HALF

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        inputs, outputs, rows, group = given[1], given[2], given[3], given[4]
        units, groups = inputs // UNIT, inputs // group
        sums = own_memory(room)
        panel = take(numbers, 1)
        if has_shifts and panel < outputs // OUTPUTS:
            sum_groups(given[10], rows, inputs, group, sums, size)
        while panel < outputs // OUTPUTS:
            at = panel * OUTPUTS
            multiply_panel(
                given[10],
                given[5] + panel * units * unit_bytes,
                given[6] + 4 * at * groups,
                given[7] + 4 * at * groups,
                given[8] + size * at if given[8] else 0,
                given[9] + size * at if given[9] else 0,
                given[11] + size * at,
                sums,
                inputs,
                outputs,
                group,
                rows,
                bits,
                size,
                has_shifts,
            )
            panel = take(numbers, 1)

    return Kernel(multiply, f"quantized-{name}-{bits}-{size}-{int(has_shifts)}")
