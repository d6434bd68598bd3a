"""RMSNorm (Zhang and Sennrich, 2019) in one pass over each row."""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.elements import (
    SCALARS,
    array_at,
    float_bits,
    narrow,
    summing,
    take_rows,
    to_float,
    widen,
)
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.failure import KernelError

_ROWS = 16
"""Rows that a thread takes at once."""


def rms_norm_reference(
    values: torch.Tensor, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
) -> torch.Tensor:
    """In torch, as models write it."""
    wide = values.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    if unit_offset:
        return (normed * (1.0 + weight.float())).to(values.dtype)
    return weight * normed.to(values.dtype)


class RmsNorm:
    """Divides each row by its root mean square, and weights it.

    One thread calls it at a time. The weight's memory stays where it is.
    """

    def __init__(
        self, weight: torch.Tensor, epsilon: float, *, unit_offset: bool
    ) -> None:
        """Compiles what is not compiled yet.

        Args:
            weight: [width], bfloat16 or float32, in main memory.
            epsilon: Added to the mean of the squares.
            unit_offset: Weights by 1 + `weight` before rounding to the dtype; else by
                `weight` after it.

        Raises:
            KernelError: There is none for this dtype or machine.
        """
        if weight.dtype not in SCALARS:
            raise KernelError(f"there is no compiled RMSNorm for {weight.dtype}")
        self._weight = weight.contiguous()
        self._epsilon, self._unit_offset = epsilon, unit_offset
        self._kernel = _kernel(weight.dtype)
        (self._width,) = weight.shape
        self._numbers = numbers_of(
            *(0, 1, self._width, 0, self._width),
            *(0, self._weight.data_ptr(), 0),
            *(float_bits(epsilon), unit_offset),
        )

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """[..., width]; the result is contiguous. Of other dtypes the reference's."""
        numbers = self._numbers
        if values.dtype != self._weight.dtype or values.shape[-1] != self._width:
            return rms_norm_reference(
                values, self._weight, self._epsilon, unit_offset=self._unit_offset
            )
        if values.is_contiguous():
            numbers[2], numbers[3], numbers[4] = 1, self._width, 0
        elif values.ndim == 4 and values.shape[0] == 1 and values.stride(3) == 1:
            numbers[2] = values.shape[2]
            numbers[3], numbers[4] = values.stride(1), values.stride(2)
        else:
            return self(values.contiguous())
        output = torch.empty(values.shape, dtype=values.dtype)
        elements = output.numel()
        numbers[1] = elements // self._width
        numbers[6], numbers[8] = values.data_ptr(), output.data_ptr()
        self._kernel(elements, numbers)
        return output


@functools.cache
def _kernel(dtype: torch.dtype) -> Kernel:
    scalar = SCALARS[dtype]

    def rms_norm_rows(numbers: Any) -> None:
        given = array_at(numbers, 11, np.int64)
        rows, inner, width = given[1], given[2], given[5]
        outer_stride, inner_stride = given[3], given[4]
        end = rows // inner * outer_stride + inner * inner_stride + width
        values = array_at(given[6], end, scalar)
        weight = array_at(given[7], width, scalar)
        output = array_at(given[8], rows * width, scalar)
        first = take_rows(numbers, _ROWS)
        while first < rows:
            for row in range(first, min(first + _ROWS, rows)):
                at = row // inner * outer_stride + row % inner * inner_stride
                _norm_row(
                    values[at : at + width],
                    weight,
                    output[row * width : (row + 1) * width],
                    to_float(given[9]),
                    given[10],
                    scalar,
                )
            first = take_rows(numbers, _ROWS)

    return Kernel(rms_norm_rows, f"rms-norm-rows-{str(dtype)[6:]}")


@summing
def _norm_row(  # noqa: PLR0917 - a kernel takes no keywords
    values: Any, weight: Any, output: Any, epsilon: Any, unit_offset: Any, scalar: Any
) -> None:
    squares = np.float32(0.0)
    for index in range(len(output)):
        value = widen(values[index])
        squares += value * value
    mean = squares / np.float32(len(output))
    scale = np.float32(1.0) / np.sqrt(mean + epsilon)
    if unit_offset:
        for index in range(len(output)):
            normed = widen(values[index]) * scale
            factor = np.float32(1.0) + widen(weight[index])
            output[index] = narrow(normed * factor, scalar)
    else:
        for index in range(len(output)):
            normed = widen(narrow(widen(values[index]) * scale, scalar))
            output[index] = narrow(normed * widen(weight[index]), scalar)
