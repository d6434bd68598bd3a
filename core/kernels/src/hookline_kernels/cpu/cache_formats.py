"""Numbers of the KV cache in registers: float32 from each format that a cache has.

A format is a literal of kernels that read a cache. 4 and 2 are float32 and bfloat16, as
`vectors.load` takes them. The conversion of an 8-bit number leaves out a factor that
all numbers of a token share: its scale behind the page (int8), or a power of two.

float16 has the exponent of E5M2 and one bit more than that of E4M3; so the bits of
either, moved to the left, are a float16 that the CPU converts, denormal or not.
"""

from typing import Any

import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import (
    INT16,
    INT64,
    Emit,
    constant,
    lanes_for,
    load,
    offset,
    splat,
    store,
    vector,
)
from hookline_kernels.layout import page_bytes

INT8, E4M3, E5M2 = 81, 82, 83
FORMATS = {
    torch.float32: 4,
    torch.bfloat16: 2,
    torch.int8: INT8,
    torch.float8_e4m3fn: E4M3,
    torch.float8_e5m2: E5M2,
}
"""The format of each dtype that compiled kernels read."""

_DTYPES = {form: dtype for dtype, form in FORMATS.items()}
_BYTE = ir.IntType(8)
_HALF = ir.HalfType()
_E4M3_UNIT = 256.0
"""Its bits as a float16 stand for a number smaller by the difference of the biases."""
_HALF_NAN = 0x7E00
_SCALE_BYTES = 2
_TOKENS = 16


def bytes_of(form: int) -> int:
    """Returns the size of a number."""
    return 1 if form in {INT8, E4M3, E5M2} else form


def load_stored(
    builder: ir.IRBuilder,
    address: ir.Value,
    lanes: int,
    form: int,
    *,
    has_nan: bool = False,
) -> ir.Value:
    """Loads numbers of a cache, without the factors of their tokens.

    Not-a-numbers of E4M3 need an instruction or two more, and become a number without
    `has_nan`. Values suffice to spoil what is made of a token.
    """
    if bytes_of(form) > 1:
        return load(builder, address, lanes, form)
    pointer = builder.inttoptr(address, vector(lanes, _BYTE).as_pointer())
    stored = builder.load(pointer, align=1)
    if form == INT8:
        return builder.sitofp(stored, vector(lanes))
    if form == E5M2:
        bits = builder.zext(stored, vector(lanes, INT16))
        bits = builder.shl(bits, constant(8, lanes, INT16))
    else:
        bits = builder.sext(stored, vector(lanes, INT16))
        bits = builder.shl(bits, constant(7, lanes, INT16))
        bits = builder.and_(bits, constant(0xBFFF - (1 << 16), lanes, INT16))
        if has_nan:
            size = builder.or_(stored, constant(-128, lanes, _BYTE))
            is_nan = builder.icmp_unsigned("==", size, constant(-1, lanes, _BYTE))
            bits = builder.select(is_nan, constant(_HALF_NAN, lanes, INT16), bits)
    return builder.fpext(builder.bitcast(bits, vector(lanes, _HALF)), vector(lanes))


def token_factors(  # noqa: PLR0917 - a page and its shape
    builder: ir.IRBuilder,
    page: ir.Value,
    first: ir.Value | int,
    lanes: int,
    shape: tuple[int, int],
    form: int,
) -> ir.Value | None:
    """Returns the factors of tokens from `first` on; None if all are 1.

    The shape is the page's: width of a head, and block size.
    """
    if form == E4M3:
        return constant(_E4M3_UNIT, lanes)
    if form != INT8:
        return None
    scales = builder.add(page, INT64(scales_at(*shape)))
    return load(
        builder, offset(builder, scales, first, _SCALE_BYTES), lanes, _SCALE_BYTES
    )


def scaled(
    builder: ir.IRBuilder, numbers: ir.Value, factors: ir.Value | None
) -> ir.Value:
    """Returns numbers · factors, where there are any."""
    return numbers if factors is None else builder.fmul(numbers, factors)


def page_size(dim: int, block: int, form: int) -> int:
    """Returns the bytes of a page, with its scales."""
    return page_bytes(block, dim, _DTYPES[form])


def scales_at(dim: int, block: int) -> int:
    """Returns the offset of the scales in a page of int8."""
    return page_size(dim, block, INT8) - block * _SCALE_BYTES


def _widen_keys(  # noqa: PLR0917 - numba passes by position
    _: object,
    page: Any,
    first: Any,
    target: Any,
    dim: Any,
    block: Any,
    form: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Writes 16 tokens of a page of keys, from `first` on, as [dim, 16].

    size: Bytes of a written number: 4 for float32, 2 for bfloat16.
    """
    signature = types.void(page, first, target, dim, block, form, size)
    width, tokens = dim.literal_value, block.literal_value
    stored, element = form.literal_value, size.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, start, output = args[:3]
        shape = (width, tokens)
        factors = token_factors(builder, source, start, _TOKENS, shape, stored)
        column = builder.add(source, start)
        with cgutils.for_range(builder, INT64(width), intp=INT64) as loop:
            at = offset(builder, column, loop.index, tokens)
            found = scaled(builder, load_stored(builder, at, _TOKENS, stored), factors)
            at = offset(builder, output, loop.index, element * _TOKENS)
            store(builder, found, at, element)
        return context.get_dummy_value()

    return signature, emit


def _widen_values(  # noqa: PLR0917 - numba passes by position
    _: object,
    page: Any,
    first: Any,
    target: Any,
    dim: Any,
    block: Any,
    form: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Writes 16 tokens of a page of values, as `_widen_keys`, but as [16, dim]."""
    signature = types.void(page, first, target, dim, block, form, size)
    width, tokens = dim.literal_value, block.literal_value
    stored, element = form.literal_value, size.literal_value
    lanes = lanes_for(width)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, start, output = args[:3]
        shape = (width, tokens)
        with cgutils.for_range(builder, INT64(_TOKENS), intp=INT64) as loop:
            token = builder.add(start, loop.index)
            factors = token_factors(builder, source, token, 1, shape, stored)
            if factors is not None:
                factor = builder.extract_element(factors, ir.IntType(32)(0))
                factors = splat(builder, factor, lanes)
            row = offset(builder, source, token, width)
            to = offset(builder, output, loop.index, element * width)
            for at in range(0, width, lanes):
                place = builder.add(row, INT64(at))
                found = load_stored(builder, place, lanes, stored, has_nan=True)
                own = builder.add(to, INT64(element * at))
                store(builder, scaled(builder, found, factors), own, element)
        return context.get_dummy_value()

    return signature, emit


widen_keys: Any = intrinsic(prefer_literal=True)(_widen_keys)
widen_values: Any = intrinsic(prefer_literal=True)(_widen_values)
