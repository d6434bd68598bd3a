"""Products of many rows with quantized weights, on the CPU's matrix unit (AMX).

A part of a panel is expanded to bfloat16, scaled, and stays in the L1 cache while
blocks of rows are multiplied with it.
"""

import functools

from hookline_kernels.cpu.amx import DEPTH
from hookline_kernels.cpu.block_gemm import PanelSource, blocks_kernel
from hookline_kernels.cpu.elements import exact
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.panels import MOST_STEPS
from hookline_kernels.cpu.quantized_codes import half_bytes
from hookline_kernels.cpu.quantized_expansion import expand
from hookline_kernels.quantized_weight import OUTPUTS, UNIT

_UNITS = DEPTH // UNIT
"""Units in a step of 32 inputs."""


@functools.cache
def many_rows_kernel(bits: int, has_shifts: bool, kind: int, in_blocks: bool) -> Kernel:
    """Compiles the kernel for codes of `bits` bits; the rest as in `block_gemm`.

    Its weights are codes, and parts have as many steps as `panels.steps_at_once` says.
    """
    variant = f"quantized-many-{bits}-{int(has_shifts)}-{kind}-{int(in_blocks)}"
    return blocks_kernel(
        _source(bits, has_shifts), kind=kind, in_blocks=in_blocks, variant=variant
    )


def _source(bits: int, has_shifts: bool) -> PanelSource:
    unit_bytes = 2 * half_bytes(bits)

    @exact
    def part_of(numbers: int, panel: int, begun: int, count: int, room: int) -> int:
        """Expands a part; returns its address."""
        inputs, group = int_at(numbers, 1), int_at(numbers, 4)
        at = 4 * OUTPUTS * panel * (inputs // group)
        expand(
            int_at(numbers, 5) + panel * (inputs // UNIT) * unit_bytes,
            int_at(numbers, 6) + at,
            int_at(numbers, 7) + at,
            room,
            begun * _UNITS,
            count * _UNITS,
            group // UNIT,
            bits,
            2,
            has_shifts,
        )
        return room

    @exact
    def ahead_of(_: int, __: int) -> int:
        """Codes are not prefetched: the next panel is expanded as a whole."""
        return 0

    room_bytes = MOST_STEPS * DEPTH * OUTPUTS * 2
    return PanelSource(part_of, ahead_of, 0, room_bytes=room_bytes)
