"""A gated feed-forward layer (Shazeer 2020) on the processor's matrix unit, bfloat16.

Gate and up are one product whose sums become the activation before they leave the
first cache. What is between the layer's products lies in blocks as the second one reads
them, so that neither is written or read anywhere else.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.amx import DEPTH, ROWS, has_tiles
from hookline_kernels.cpu.elements import array_at
from hookline_kernels.cpu.few_rows import FewRows, add_rows
from hookline_kernels.cpu.gated import GATES, Gate, gated
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import (
    BLOCK_BYTES,
    HEIGHT,
    OUTPUTS,
    STEP_BYTES,
    SUM_BYTES,
    close_tiles,
    lay_panels,
    multiply_slice,
    open_tiles,
    own_memory,
)
from hookline_kernels.cpu.vectors import CACHE_LINE, INT64, Emit, load, offset, store
from hookline_kernels.failure import KernelError

_MOST_STEPS = 16
"""Of a slice: 32 KiB of a panel, two thirds of a first cache."""
_MOST_BLOCKS = 16
"""Of 32 rows that a thread takes at once."""
_MOST_BYTES = 1 << 20
"""Of these rows: half of a second cache."""
_PANELS = 4
"""That a thread takes at once."""
_LINES = STEP_BYTES // CACHE_LINE


class FeedForward:
    """down(activation(gate(x)) · up(x)) + summand. One thread calls it at a time."""

    def __init__(
        self,
        gate: torch.Tensor,
        up: torch.Tensor,
        down: torch.Tensor,
        activation: str,
    ) -> None:
        """Takes copies of the weights, and compiles what is not compiled yet.

        Args:
            gate: [width, hidden] bfloat16.
            up: [width, hidden].
            down: [hidden, width].
            activation: One of `GATES`.

        Raises:
            KernelError: There is none for these weights or this machine.
        """
        width, hidden = gate.shape
        if activation not in GATES or gate.dtype != torch.bfloat16 or not has_tiles():
            raise KernelError("there is no matrix unit for this feed-forward layer")
        if width % DEPTH or hidden % OUTPUTS:
            raise KernelError(f"{hidden} by {width} is no multiple of {DEPTH}")
        self._width, self._hidden = width, hidden
        halves = [each.view(-1, ROWS, hidden) for each in (gate, up)]
        joined = torch.stack(halves, 1).view(2 * width, hidden)
        self._gate_up, self._down = lay_panels(joined), lay_panels(down)
        self._few = (
            FewRows(self._gate_up, None, OUTPUTS),
            Gate(width, gate.dtype, activation, alternates=True),
            FewRows(self._down, None, OUTPUTS),
        )
        self._into, self._out_of = _kernel(activation), _kernel(None)

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, hidden] → the same; the summand is like both, contiguous."""
        rows = len(values)
        if rows <= FewRows.most:
            gate_up, gate, down = self._few
            return down(gate(gate_up(values)), summand)
        values = values.contiguous()
        blocks = -(-rows // HEIGHT)
        between = torch.empty(blocks * HEIGHT * self._width, dtype=values.dtype)
        output = torch.empty_like(values)
        for kernel, source, weight, target, extra, inputs in (
            (self._into, values, self._gate_up, between, None, self._hidden),
            (self._out_of, between, self._down, output, summand, self._width),
        ):
            outputs = weight.numel() // inputs
            numbers = numbers_of(
                *(rows, inputs, outputs, _blocks_at_once(blocks, inputs)),
                *(source.data_ptr(), weight.data_ptr(), target.data_ptr()),
                0 if extra is None else extra.data_ptr(),
            )
            kernel(weight.numel(), numbers)
        return output


def _blocks_at_once(blocks: int, inputs: int) -> int:
    """How many blocks of rows pass a slice: much alike, and not too many."""
    most = _MOST_BYTES // (2 * HEIGHT * inputs)
    most = max(1, min(most, _MOST_BLOCKS))
    parts = -(-blocks // most)
    return -(-blocks // parts)


@functools.cache
def _kernel(activation: str | None) -> Kernel:
    """Of rows to blocks of activations, or of blocks to rows if there is none."""
    has_gate, has_cube = activation is not None, activation == "gelu_tanh"
    in_blocks = not has_gate
    room = _MOST_BLOCKS * SUM_BYTES

    def multiply(numbers: Any) -> None:
        given = array_at(numbers, 9, np.int64)
        rows, inputs, outputs, most = given[1], given[2], given[3], given[4]
        row_bytes, steps = 2 * inputs, inputs // DEPTH
        parts = (steps + _MOST_STEPS - 1) // _MOST_STEPS
        length = (steps + parts - 1) // parts
        blocks, panels = (rows + HEIGHT - 1) // HEIGHT, outputs // OUTPUTS
        pieces = (blocks + most - 1) // most
        groups = (panels + _PANELS - 1) // _PANELS
        sums = own_memory(room)
        before = open_tiles()
        task = take(numbers, 1)
        while task < pieces * groups:
            first = task // groups * most
            last = min(first + most, blocks)
            lines = (_LINES + last - first - 1) // (last - first)
            start = task % groups * _PANELS
            for panel in range(start, min(start + _PANELS, panels)):
                for step in range(0, steps, length):
                    count = min(length, steps - step)
                    weights = given[6] + panel * row_bytes * OUTPUTS + step * STEP_BYTES
                    ahead = weights + count * STEP_BYTES
                    for block in range(first, last):
                        # the last rows are computed twice rather than half
                        row = min(block * HEIGHT, rows - HEIGHT)
                        if in_blocks:
                            source = given[5] + (block * steps + step) * BLOCK_BYTES
                        else:
                            source = given[5] + row * row_bytes + step * 2 * DEPTH
                        place = sums + (block - first) * SUM_BYTES
                        multiply_slice(
                            source,
                            row_bytes,
                            weights,
                            count,
                            place,
                            ahead,
                            lines,
                            step,
                            in_blocks,
                        )
                        ahead += count * lines * CACHE_LINE
                        if step + count < steps:
                            continue
                        if has_gate:
                            at = block * (panels // 2) + panel // 2
                            target = given[7] + at * BLOCK_BYTES + panel % 2 * DEPTH
                            gate_sums(place, target, has_cube)
                        else:
                            at = 2 * (row * outputs + panel * OUTPUTS)
                            summand = given[8] + at if given[8] else 0
                            add_sums(place, summand, given[7] + at, outputs)
            task = take(numbers, 1)
        close_tiles(before)

    return Kernel(multiply, f"feed-forward-{activation}")


def _gate_sums(_: object, sums: Any, output: Any, cube: Any) -> tuple[Signature, Emit]:
    """32 rows of 16 gates and 16 ups become half of a block of inputs."""
    signature = types.void(*[types.intp for _ in (sums, output)], cube)
    has_cube = cube.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target = args[:2]
        with cgutils.for_range(builder, INT64(HEIGHT), intp=INT64) as loop:
            gates = offset(builder, source, loop.index, 4 * OUTPUTS)
            ups = builder.add(gates, INT64(4 * ROWS))
            found = gated(
                builder,
                *(load(builder, side, ROWS) for side in (gates, ups)),
                has_cube=has_cube,
            )
            store(builder, found, offset(builder, target, loop.index, 2 * DEPTH), 2)
        return context.get_dummy_value()

    return signature, emit


def _add_sums(
    _: object,
    sums: Any,
    summand: Any,
    output: Any,
    outputs: Any,
) -> tuple[Signature, Emit]:
    """32 rows of 32 sums, and what is added to them, go to their places in rows."""
    signature = types.void(*[types.intp for _ in (sums, summand, output, outputs)])

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, extra, target, stride = args
        add_rows(
            builder,
            source,
            shift=INT64(0),
            extra=extra,
            target=target,
            count=INT64(HEIGHT),
            stride=stride,
        )
        return context.get_dummy_value()

    return signature, emit


gate_sums: Any = intrinsic(prefer_literal=True)(_gate_sums)
add_sums: Any = intrinsic(_add_sums)
