"""Writes one head of one token into its page of a cache, as intrinsics for numba.

8-bit numbers are rounded to nearest, ties to even, as `cache_numbers.quantized` does.
"""

import struct
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.cache_formats import (
    E4M3,
    INT8,
    bytes_of,
    scales_at,
)
from hookline_kernels.cpu.vectors import (
    INT16,
    INT32,
    INT64,
    Emit,
    constant,
    lanes_for,
    load,
    offset,
    reduce,
    rounded,
    splat,
    vector,
    widened,
)

_BYTE = ir.IntType(8)
_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_MAGNITUDE = 0x7FFFFFFF
_MOST = 127
_LEAST_SCALE = 1e-30
_ROUNDING = 1.5 * 2**23
"""A number that is added to it is rounded; the sum's lowest bits are that integer."""


def _store_key(  # noqa: PLR0917 - numba passes by position
    _: object,
    head: Any,
    page: Any,
    place: Any,
    dim: Any,
    block: Any,
    size: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """Writes a head as column `place` of a page, [dim, block].

    head: `size` bytes per number. form: The cache's format.
    """
    signature = types.void(head, page, place, dim, block, size, form)
    width, tokens = dim.literal_value, block.literal_value
    element, stored = size.literal_value, form.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, column = args[:3]
        if (count := bytes_of(stored)) == 1:
            buffer = cgutils.alloca_once(builder, ir.ArrayType(_BYTE, width))
            coded = builder.ptrtoint(buffer, INT64)
            shape = (width, tokens, element, stored)
            _store_coded(builder, source, (target, column), coded, shape)
            source = coded
        first = offset(builder, target, column, count)
        _copy(builder, source, first, width, (count, tokens * count))
        return context.get_dummy_value()

    return signature, emit


def _store_value(  # noqa: PLR0917 - numba passes by position
    _: object,
    head: Any,
    page: Any,
    place: Any,
    dim: Any,
    block: Any,
    size: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """Writes a head as row `place` of a page, [block, dim]; as `_store_key` else."""
    signature = types.void(head, page, place, dim, block, size, form)
    width, tokens = dim.literal_value, block.literal_value
    element, stored = size.literal_value, form.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, target, row = args[:3]
        count = bytes_of(stored)
        line = offset(builder, target, row, width * count)
        if count == 1:
            shape = (width, tokens, element, stored)
            _store_coded(builder, source, (target, row), line, shape)
        else:
            _copy(builder, source, line, width, (count, count))
        return context.get_dummy_value()

    return signature, emit


def _copy(
    builder: ir.IRBuilder,
    source: ir.Value,
    target: ir.Value,
    count: int,
    steps: tuple[int, int],
) -> None:
    """Copies numbers bit by bit.

    The steps are bytes from number to number: the source's, where numbers follow one
    another, and the target's.
    """
    size, step = steps
    pointer = ir.IntType(8 * size).as_pointer()
    with cgutils.for_range(builder, INT64(count), intp=INT64) as loop:
        at = offset(builder, source, loop.index, size)
        number = builder.load(builder.inttoptr(at, pointer), align=size)
        place = offset(builder, target, loop.index, step)
        builder.store(number, builder.inttoptr(place, pointer), align=size)


def _store_coded(
    builder: ir.IRBuilder,
    source: ir.Value,
    slot: tuple[ir.Value, ir.Value],
    target: ir.Value,
    shape: tuple[int, int, int, int],
) -> None:
    """Writes 8-bit numbers of a head one after another, and its scale if it has one.

    The slot is a page and a place in it; the shape the head's width, the block size,
    the bytes per number of the head, and the cache's format.
    """
    width, tokens, element, form = shape
    lanes = lanes_for(width)
    places = range(0, width, lanes)
    numbers = [
        load(builder, offset(builder, source, at, element), lanes, element)
        for at in places
    ]
    if form == INT8:
        page, place = slot
        scales = builder.add(page, INT64(scales_at(width, tokens)))
        coded = _scaled_to_int8(builder, numbers, offset(builder, scales, place, 2))
    else:
        coded = [_float8(builder, each, is_e4m3=form == E4M3) for each in numbers]
    for at, each in zip(places, coded, strict=True):
        to = builder.add(target, INT64(at))
        builder.store(each, builder.inttoptr(to, each.type.as_pointer()), align=1)


def _scaled_to_int8(
    builder: ir.IRBuilder, numbers: list[ir.Value], scale_at: ir.Value
) -> list[ir.Value]:
    """Writes the scale of all these numbers; returns them divided by it."""
    lanes = numbers[0].type.count
    most = constant(0, lanes, INT32)
    for each in numbers:
        size = builder.bitcast(each, vector(lanes, INT32))
        size = builder.and_(size, constant(_MAGNITUDE, lanes, INT32))
        most = _larger_int(builder, size, most)  # not-a-number is the largest
    largest = reduce(builder, most, _larger_int)
    is_nan = builder.icmp_unsigned(">", largest, INT32(_NAN))
    largest = builder.select(is_nan, INT32(_NAN), largest)
    one = vector(1)
    nothing = constant(0.0, 1)
    scale = builder.bitcast(splat(builder, largest, 1), one)
    halves = rounded(builder, builder.fmul(scale, constant(1 / _MOST, 1)))
    scale = widened(builder, halves)
    is_nothing = builder.fcmp_ordered("<", scale, constant(_LEAST_SCALE, 1))
    inverse = builder.fdiv(constant(1.0, 1), scale)
    inverse = builder.select(is_nothing, nothing, inverse)
    halves = builder.select(is_nothing, constant(0, 1, INT16), halves)
    pointer = builder.inttoptr(scale_at, halves.type.as_pointer())
    builder.store(halves, pointer, align=2)
    factor = splat(builder, builder.extract_element(inverse, INT32(0)), lanes)
    found = []
    for each in numbers:
        product = builder.fmul(each, factor)
        whole = builder.fadd(product, constant(_ROUNDING, lanes))
        bits = builder.bitcast(whole, vector(lanes, INT32))
        found.append(builder.trunc(bits, vector(lanes, _BYTE)))
    return found


def _float8(builder: ir.IRBuilder, numbers: ir.Value, *, is_e4m3: bool) -> ir.Value:
    """Rounds to 8-bit floating point; clamps what exceeds its largest number."""
    mantissa, bias, most = (3, 7, 448.0) if is_e4m3 else (2, 15, 57344.0)
    lanes = numbers.type.count
    kind = vector(lanes, INT32)

    def whole(value: int) -> ir.Constant:
        return constant(value, lanes, INT32)

    bits = builder.bitcast(numbers, kind)
    sign = builder.and_(builder.lshr(bits, whole(24)), whole(0x80))
    size = builder.and_(bits, whole(_MAGNITUDE))
    is_nan = builder.icmp_unsigned(">", size, whole(_INFINITY))
    limit = whole(_bits_of(most))
    size = builder.select(builder.icmp_unsigned(">", size, limit), limit, size)
    # Normal numbers: the exponent's bias changes, and the mantissa is rounded.
    shift = whole(23 - mantissa)
    odd = builder.and_(builder.lshr(size, shift), whole(1))
    bits = builder.add(builder.add(size, odd), whole((1 << (22 - mantissa)) - 1))
    normal = builder.sub(builder.lshr(bits, shift), whole((127 - bias) << mantissa))
    # Smaller ones: the sum with a large number ends with multiples of the smallest.
    large = 2.0 ** (24 - bias - mantissa)
    total = builder.fadd(builder.bitcast(size, vector(lanes)), constant(large, lanes))
    small = builder.sub(builder.bitcast(total, kind), whole(_bits_of(large)))
    is_small = builder.icmp_unsigned("<", size, whole(_bits_of(2.0 ** (1 - bias))))
    code = builder.select(is_small, small, normal)
    code = builder.select(is_nan, whole(0x7F), code)
    return builder.trunc(builder.or_(code, sign), vector(lanes, _BYTE))


def _larger_int(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_unsigned(">", left, right), left, right)


def _bits_of(value: float) -> int:
    """Returns the bits of a positive float32."""
    return int.from_bytes(struct.pack("<f", value), "little")


store_key: Any = intrinsic(prefer_literal=True)(_store_key)
store_value: Any = intrinsic(prefer_literal=True)(_store_value)
