"""Compiled sampling: one token per row, in one pass over the vocabulary.

`argmax` reads bfloat16 and float32 as integers, at the speed of memory; `draw` computes
an exponential per token, too. Logits of other dtypes are slower: they are converted to
float32 first. The pass that finds the maximum of a row also finds its minimum: a
not-a-number is above +∞ or below −∞, depending on its sign.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.elements import (
    SCALARS,
    array_at,
    summing,
    widen,
)
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.drawing import NO_TOKEN

_SPAN = 512
"""Tokens in a span, whose maximum or mass is computed before the token is found."""


_BITS = {
    torch.bfloat16: (np.int16, 2**15 - 1, 0x7F80),
    torch.float32: (np.int32, 2**31 - 1, 0x7F800000),
}
"""Integers as wide as each dtype, all of their bits but the sign, and those of +∞."""


def argmax(logits: torch.Tensor) -> torch.Tensor:
    """Returns the first index of each row's largest logit.

    Args:
        logits: [R, vocabulary].

    Returns:
        [R] int64; `NO_TOKEN` for rows without a finite maximum, or with a not-a-number.
    """
    logits = _readable(logits)
    tokens = torch.empty(len(logits), dtype=torch.int64)
    _argmax_kernel(logits.dtype)(
        logits.numel() // 4,
        numbers_of(*logits.shape, logits.data_ptr(), tokens.data_ptr()),
    )
    return tokens


def draw(
    logits: torch.Tensor, temperatures: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """Returns the token at which each row's cumulative probability passes its point.

    Args:
        logits: [R, vocabulary]; −∞ is never drawn.
        temperatures: [R] float32, above 0.
        points: [R] float64 in [0, 1).

    Returns:
        [R] int64; `NO_TOKEN` as `argmax` does.
    """
    logits = _readable(logits)
    tokens = torch.empty(len(logits), dtype=torch.int64)
    temperatures, points = temperatures.contiguous(), points.contiguous()
    spans = -(-logits.shape[1] // _SPAN)
    masses = torch.empty(len(logits), spans, dtype=torch.float64)
    _draw_kernel(logits.dtype)(
        logits.numel(),
        numbers_of(
            *logits.shape,
            *(part.data_ptr() for part in (logits, temperatures, points)),
            *(part.data_ptr() for part in (tokens, masses)),
        ),
    )
    return tokens


def compile_for(dtype: torch.dtype) -> None:
    """Compiles the kernels for logits of a dtype.

    Raises:
        KernelError: It cannot be compiled here.
    """
    for known in {dtype, torch.float32} & {*SCALARS}:
        _argmax_kernel(known)
        _draw_kernel(known)


def _readable(logits: torch.Tensor) -> torch.Tensor:
    return (logits if logits.dtype in SCALARS else logits.float()).contiguous()


@functools.cache
def _argmax_kernel(dtype: torch.dtype) -> Kernel:
    bits, magnitude, infinity = _BITS[dtype]

    def argmax_rows(numbers: Any) -> None:
        given = array_at(numbers, 5, np.int64)
        rows, width = given[1], given[2]
        logits = array_at(given[3], rows * width, bits)
        tokens = array_at(given[4], rows, np.int64)
        row = take(numbers, 1)
        while row < rows:
            mine = logits[row * width : (row + 1) * width]
            tokens[row] = _first_largest(mine, bits, magnitude, infinity)
            row = take(numbers, 1)

    return Kernel(argmax_rows, f"argmax-rows-{str(dtype)[6:]}")


@summing
def _order(value: Any, bits: Any, magnitude: Any) -> Any:
    """Maps a float's bits to an integer of the same order; −0 maps to 0."""
    key = bits(value ^ bits(bits(value >> bits(31)) & bits(magnitude)))
    return bits(0) if key == bits(-1) else key


@summing
def _first_largest(values: Any, bits: Any, magnitude: Any, infinity: Any) -> Any:
    """Returns `NO_TOKEN` unless all are numbers, and the largest is finite."""
    best, start = _order(values[0], bits, magnitude), 0
    least = best
    for span in range(0, len(values), _SPAN):
        part = values[span : span + _SPAN]
        largest, smallest = best, least
        for index in range(len(part)):
            order = _order(part[index], bits, magnitude)
            largest = max(largest, order)
            smallest = min(smallest, order)
        least = smallest
        if largest > best:
            best, start = largest, span
    # The order of −∞ is one less than the negative of that of +∞.
    if not (-infinity <= best < infinity and least >= -infinity - 1):
        return NO_TOKEN
    for index in range(start, len(values)):
        if _order(values[index], bits, magnitude) == best:
            return index
    return 0


@functools.cache
def _draw_kernel(dtype: torch.dtype) -> Kernel:
    scalar, (bits, magnitude, infinity) = SCALARS[dtype], _BITS[dtype]

    def draw_rows(numbers: Any) -> None:
        given = array_at(numbers, 8, np.int64)
        rows, width, spans = given[1], given[2], -(-given[2] // _SPAN)
        logits = array_at(given[3], rows * width, scalar)
        numbers_of = array_at(given[3], rows * width, bits)
        masses = array_at(given[7], rows * spans, np.float64)
        temperatures = array_at(given[4], rows, np.float32)
        points = array_at(given[5], rows, np.float64)
        tokens = array_at(given[6], rows, np.int64)
        row = take(numbers, 1)
        while row < rows:
            mine = logits[row * width : (row + 1) * width]
            own = numbers_of[row * width : (row + 1) * width]
            best = _first_largest(own, bits, magnitude, infinity)
            tokens[row] = best
            if best != NO_TOKEN:
                tokens[row] = _draw_row(
                    mine,
                    widen(mine[best]),
                    temperatures[row],
                    points[row],
                    masses[row * spans : (row + 1) * spans],
                )
            row = take(numbers, 1)

    return Kernel(draw_rows, f"draw-rows-{str(dtype)[6:]}")


@summing
def _draw_row(logits: Any, top: Any, temperature: Any, point: Any, masses: Any) -> Any:
    """Finds the span of tokens that the point falls into, then the token."""
    inverse = np.float32(1.0) / temperature
    total, final = 0.0, 0
    for span in range(len(masses)):
        part = logits[span * _SPAN : (span + 1) * _SPAN]
        masses[span] = _mass(part, top, inverse)
        total += masses[span]
        if masses[span] > 0:
            final = span
    target, span = point * total, 0
    while span < final and masses[span] <= target:
        target -= masses[span]
        span += 1
    part = logits[span * _SPAN : (span + 1) * _SPAN]
    return span * _SPAN + _draw_in_span(part, top, inverse, target)


@summing
def _mass(logits: Any, top: Any, inverse: Any) -> Any:
    mass = np.float32(0.0)
    for index in range(len(logits)):
        mass += _exponential((widen(logits[index]) - top) * inverse)
    return mass


@summing
def _draw_in_span(logits: Any, top: Any, inverse: Any, target: Any) -> Any:
    """Ends at the last possible token if rounding makes the sum fall short."""
    last = 0
    for index in range(len(logits)):
        mass = _exponential((widen(logits[index]) - top) * inverse)
        if mass > 0:
            last = index
            target -= mass
            if target < 0:
                break
    return last


@summing
def _exponential(value: Any) -> Any:
    """Computes e^x for x ≤ 0, to 2 units in the last place.

    A polynomial after taking out powers of 2 (coefficients: Cephes), because a call of
    the C library would prevent vectorisation.
    """
    power = np.floor(value * np.float32(1.44269504) + np.float32(0.5))
    power = max(power, np.float32(-126.0))
    rest = value - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
    series = np.float32(1.9875691500e-4)
    series = series * rest + np.float32(1.3981999507e-3)
    series = series * rest + np.float32(8.3334519073e-3)
    series = series * rest + np.float32(4.1665795894e-2)
    series = series * rest + np.float32(1.6666665459e-1)
    series = series * rest + np.float32(5.0000001201e-1)
    series = series * rest * rest + rest + np.float32(1.0)
    scale = np.uint32(np.uint32(np.int32(power) + 127) << np.uint32(23))
    result = series * scale.view(np.float32)
    return result if value > np.float32(-87.0) else np.float32(0.0)
