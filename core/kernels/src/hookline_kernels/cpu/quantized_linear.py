"""Linear layers and gated MLPs with quantized weights, by the fastest kernels.

Paths, by rows: one row, or up to 4 without a matrix unit, expands codes in registers
(`quantized_few`), at the speed of memory; up to 32 rows expand them exactly to tiles
(`quantized_tiles`); more expand and scale a part of a panel at a time
(`quantized_many`), fastest with rows in blocks, or `quantized_vectors` without a matrix
unit. The slowest path is `quantized_rows`, in float32 vectors: for more rows in
float32, and for shifts of so many groups that their sums do not fit a thread's memory.

Where activations become integers, too, one kernel takes any number of rows
(`quantized_integers`).
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.amx import DEPTH, HEIGHT
from hookline_kernels.cpu.block_gemm import divide_blocks
from hookline_kernels.cpu.elements import SCALARS, array_at
from hookline_kernels.cpu.finishing import AS_THEY_ARE, GELU_TANH, SILU
from hookline_kernels.cpu.gated import Gate
from hookline_kernels.cpu.launching import Kernel, Numbers, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.cpu.panels import steps_at_once, uses_tiles
from hookline_kernels.cpu.quantized_few import few_rows_kernel
from hookline_kernels.cpu.quantized_integers import divide_rows, integers_kernel
from hookline_kernels.cpu.quantized_many import many_rows_kernel
from hookline_kernels.cpu.quantized_rows import rows_kernel
from hookline_kernels.cpu.quantized_sums import SUMS_BYTES
from hookline_kernels.cpu.quantized_tiles import tiles_kernel
from hookline_kernels.cpu.quantized_vectors import vectors_kernel
from hookline_kernels.cpu.recording import fresh
from hookline_kernels.cpu.tile_rows import MOST_ROWS
from hookline_kernels.failure import KernelError
from hookline_kernels.quantized_weight import (
    BYTE_BITS,
    QuantizedWeight,
    alternating,
    are_alike,
)

_KINDS = {"silu": SILU, "gelu_tanh": GELU_TANH}
_FEW = 4
"""Most rows for which codes are expanded in registers, without a matrix unit."""
_ROWS, _RESIDUAL, _VALUES, _OUTPUT = 3, 9, 10, 11
"""Places of the kernels' arguments that change from call to call."""


class QuantizedProduct:
    """values · weightᵀ + bias + residual. For one thread at a time.

    Attributes:
        least_in_blocks: Number of rows from which rows in blocks are faster; None if
            the kernels take none.
    """

    def __init__(
        self, weight: QuantizedWeight, bias: torch.Tensor | None, dtype: torch.dtype
    ) -> None:
        """Compiles the kernels if they are not compiled yet.

        Args:
            weight: The weight.
            bias: [out] in `dtype`.
            dtype: Type of values and results: bfloat16 or float32.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        if dtype not in SCALARS:
            raise KernelError(f"no kernel multiplies {dtype} with quantized weights")
        self._kept = (weight, bias)  # the kernels hold their addresses
        self._weight, self._dtype = weight, dtype
        self._columns = None if weight.order is None else _Columns(weight.order, dtype)
        self._numbers = _numbers(weight, bias)
        bits, has_shifts = weight.bits, weight.shifts is not None
        self._tiles: Kernel | None = None
        self.least_in_blocks: int | None = None
        if weight.activation_bits == BYTE_BITS:
            self._few = _of_integers(weight, dtype)
            self._many = _of_integers(weight, dtype, in_tiles=uses_tiles())
            return
        self._few = few_rows_kernel(bits, dtype.itemsize, has_shifts)
        if _multiplies_by_tiles(dtype):
            self._tiles = tiles_kernel(bits, has_shifts)
            self._many = many_rows_kernel(bits, has_shifts, AS_THEY_ARE, False)
            self._of_blocks = many_rows_kernel(bits, has_shifts, AS_THEY_ARE, True)
        elif _multiplies_by_vectors(dtype):
            self._many = vectors_kernel(bits, has_shifts, AS_THEY_ARE)
        else:
            self._many = rows_kernel(bits, dtype.itemsize, has_shifts)
        if self._tiles is not None and self._columns is None:
            self.least_in_blocks = MOST_ROWS + 1

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [..., out] of [..., in]; the residual is [..., out], contiguous."""
        values = values.contiguous()
        if self._columns is not None:
            values = self._columns(values)
        rows = values.numel() // self._weight.in_features
        shape = (*values.shape[:-1], self._weight.out_features)
        output = fresh(shape, self._dtype)
        self._run(self._kernel_for(rows), rows, output, values, residual)
        return output

    def of_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [rows, out] of rows in blocks, from `least_in_blocks` rows on."""
        output = fresh((rows, self._weight.out_features), self._dtype)
        self._run(self._of_blocks, rows, output, values, residual)
        return output

    def _kernel_for(self, rows: int) -> Kernel:
        weight = self._weight
        if weight.activation_bits == BYTE_BITS:
            return self._few if rows <= _FEW else self._many
        groups = weight.in_features // weight.group_size
        fits = weight.shifts is None or 4 * rows * groups <= SUMS_BYTES
        if rows <= (_FEW if self._tiles is None else 1) and fits:
            return self._few
        if self._tiles is not None and rows < HEIGHT and not fits:
            return rows_kernel(weight.bits, self._dtype.itemsize, has_shifts=True)
        if self._tiles is not None and rows <= MOST_ROWS and fits:
            return self._tiles
        return self._many

    def _run(
        self,
        kernel: Kernel,
        rows: int,
        output: torch.Tensor,
        values: torch.Tensor,
        residual: torch.Tensor | None,
    ) -> None:
        run(self._weight, kernel, self._numbers, rows, output, values, residual)


class QuantizedGatedMlp:
    """down(activation(gate(x)) · up(x)) + residual. For one thread at a time.

    Attributes:
        least_in_blocks: As of `QuantizedProduct`.
        gate_up: The product with gate and up projection: 16 outputs of each alternate.
        width: Number of gates, and of ups.
    """

    def __init__(
        self,
        gate: QuantizedWeight,
        up: QuantizedWeight,
        down: QuantizedProduct,
        dtype: torch.dtype,
        activation: str,
    ) -> None:
        """Joins gate and up projection.

        Raises:
            KernelError: No kernel supports these weights or this machine.
        """
        if activation not in _KINDS or not are_alike([gate, up]):
            raise KernelError("no kernel for this gated MLP with quantized weights")
        self._weight = alternating(gate, up)
        self._numbers = _numbers(self._weight, None)
        self.width = gate.out_features
        self.gate_up, self.down = QuantizedProduct(self._weight, None, dtype), down
        self._gate = Gate(self.width, dtype, activation, alternates=True)
        takes_blocks = self.gate_up.least_in_blocks and down.least_in_blocks
        self.least_in_blocks = self.gate_up.least_in_blocks if takes_blocks else None
        self._by_vectors: Kernel | None = None
        self._few: Kernel | None = None
        args = (self._weight.bits, self._weight.shifts is not None)
        kind = _KINDS[activation]
        if self._weight.activation_bits == BYTE_BITS:
            if dtype == torch.bfloat16 and self._weight.order is None:
                self._few = _of_integers(self._weight, dtype, kind)
                self._by_vectors = _of_integers(
                    self._weight, dtype, kind, in_tiles=uses_tiles()
                )
        elif takes_blocks:
            self._into = many_rows_kernel(*args, kind, False)
            self._into_from_blocks = many_rows_kernel(*args, kind, True)
        elif _multiplies_by_vectors(dtype) and self._weight.order is None:
            self._by_vectors = vectors_kernel(*args, kind)

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, hidden] → [T, hidden]; the residual has that shape, contiguous."""
        rows = len(values)
        kernel = self._few if rows <= _FEW else self._by_vectors
        if kernel is not None:
            between, values = (
                fresh((rows, self.width), values.dtype),
                values.contiguous(),
            )
            run(self._weight, kernel, self._numbers, rows, between, values, None)
            return self.down(between, residual)
        if self.least_in_blocks is None or rows < self.least_in_blocks:
            return self.down(self._gate(self.gate_up(values)), residual)
        return self._tiled(self._into, values.contiguous(), rows, residual)

    def of_blocks(
        self, values: torch.Tensor, rows: int, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Computes rows in blocks, from `least_in_blocks` rows on."""
        return self._tiled(self._into_from_blocks, values, rows, residual)

    def split(self) -> tuple[QuantizedProduct, Gate, QuantizedProduct]:
        """Returns the products, and the activation between them.

        16 gates and 16 ups alternate in the first one's results.
        """
        return self.gate_up, self._gate, self.down

    def _tiled(
        self,
        into: Kernel,
        values: torch.Tensor,
        rows: int,
        residual: torch.Tensor | None,
    ) -> torch.Tensor:
        blocks = -(-rows // HEIGHT)
        between = fresh((blocks * HEIGHT * self.width,), values.dtype)
        run(self._weight, into, self._numbers, rows, between, values, None)
        return self.down.of_blocks(between, rows, residual)


def _multiplies_by_tiles(dtype: torch.dtype) -> bool:
    return dtype == torch.bfloat16 and uses_tiles()


def _multiplies_by_vectors(dtype: torch.dtype) -> bool:
    """Whether rows in bfloat16 are multiplied without tiles."""
    return dtype == torch.bfloat16 and not uses_tiles()


def _of_integers(
    weight: QuantizedWeight,
    dtype: torch.dtype,
    kind: int = AS_THEY_ARE,
    *,
    in_tiles: bool = False,
) -> Kernel:
    group, has_shifts = weight.activation_group, weight.shifts is not None
    given = (weight.bits, group, dtype.itemsize, has_shifts, kind)
    return integers_kernel(*given, in_tiles=in_tiles)


def _numbers(weight: QuantizedWeight, bias: torch.Tensor | None) -> Numbers:
    """Returns the arguments of all kernels, as `block_gemm` has them."""
    parts = (weight.codes, weight.scales, weight.shifts, bias)
    addresses = (0 if part is None else part.data_ptr() for part in parts)
    return numbers_of(
        *(weight.in_features, weight.out_features, 0, weight.group_size),
        *(*addresses, 0, 0, 0),
        *(0, steps_at_once(weight.in_features // DEPTH), 0),
    )


def run(  # noqa: PLR0917 - what a kernel takes
    weight: QuantizedWeight,
    kernel: Kernel,
    numbers: Numbers,
    rows: int,
    output: torch.Tensor,
    values: torch.Tensor,
    residual: torch.Tensor | None,
) -> None:
    """Starts a kernel with the arguments of a call."""
    numbers[_ROWS] = rows
    numbers[_RESIDUAL] = 0 if residual is None else residual.data_ptr()
    numbers[_VALUES], numbers[_OUTPUT] = values.data_ptr(), output.data_ptr()
    elements = weight.out_features * weight.in_features
    if weight.activation_bits == BYTE_BITS:
        divide_rows(numbers, weight.activation_group)
    elif rows > MOST_ROWS:
        divide_blocks(numbers, kernel.threads(elements))
    kernel(elements, numbers)


class _Columns:
    """Puts columns of rows into another order."""

    def __init__(self, order: torch.Tensor, dtype: torch.dtype) -> None:
        self._order, self._dtype = order, dtype
        self._kernel = _columns_kernel(dtype)
        self._numbers = numbers_of(0, len(order), order.data_ptr(), 0, 0)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        output, numbers = fresh(values.shape, self._dtype), self._numbers
        numbers[1] = values.numel() // len(self._order)
        numbers[4], numbers[5] = values.data_ptr(), output.data_ptr()
        self._kernel(values.numel(), numbers)
        return output


@functools.cache
def _columns_kernel(dtype: torch.dtype) -> Kernel:
    scalar, size = SCALARS[dtype], dtype.itemsize

    def reorder(numbers: Any) -> None:
        given = array_at(numbers, 6, np.int64)
        rows, columns = given[1], given[2]
        order = array_at(given[3], columns, np.int64)
        row = take(numbers, 1)
        while row < rows:
            at = size * row * columns
            source = array_at(given[4] + at, columns, scalar)
            target = array_at(given[5] + at, columns, scalar)
            for column in range(columns):
                target[column] = source[order[column]]
            row = take(numbers, 1)

    return Kernel(reorder, f"quantized-columns-{size}")
