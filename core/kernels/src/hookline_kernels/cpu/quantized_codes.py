"""Expands the integers of quantized weights to floating point, in registers.

With 4 bits, shifting a unit's half moves the same pair of inputs of all outputs to
where a look-up finds them (`QuantizedWeight.codes`). bfloat16 holds all integers
exactly.
"""

import struct
from collections.abc import Sequence

from llvmlite import ir
from numba.core import cgutils

from hookline_kernels.cpu.bfloat_pairs import exact_pairs, load_words
from hookline_kernels.cpu.vectors import (
    FLOAT,
    INT16,
    INT32,
    LANES,
    constant,
    load,
    multiply_add,
    offset,
    vector,
)
from hookline_kernels.quantized_weight import HALF, OUTPUTS, UNIT

_INT8 = ir.IntType(8)
_SIGNED = (*range(8), *range(-8, 0))
"""Value of each 4-bit integer."""


def half_bytes(bits: int) -> int:
    """Returns the bytes of a unit's half."""
    return HALF * UNIT * bits // 8


def code_floats(builder: ir.IRBuilder, half: ir.Value, bits: int) -> list[ir.Value]:
    """Returns 16 outputs of each of the 8 inputs at an address, in float32."""
    if bits == 8:
        return [
            _eight_bits(builder, offset(builder, half, at, HALF)) for at in range(8)
        ]
    words = load_words(builder, half, HALF)
    found = [_four_bits(builder, words, nibble) for nibble in range(8)]
    return [found[at % 2 * 4 + at // 2] for at in range(8)]


def code_pairs(builder: ir.IRBuilder, half: ir.Value, bits: int) -> list[ir.Value]:
    """Returns 16 outputs of each of the 4 pairs of inputs, as `bfloat_pairs`."""
    if bits == 8 or LANES < HALF:
        floats = code_floats(builder, half, bits)
        return [exact_pairs(builder, *floats[at : at + 2]) for at in range(0, UNIT, 2)]
    kind = vector(2 * HALF, INT16)
    words = builder.bitcast(load_words(builder, half, HALF), kind)
    table = ir.Constant(kind, [_upper_half(value) for value in 2 * _SIGNED])
    shape = ir.FunctionType(kind, [kind, kind])
    name = "llvm.x86.avx512.permvar.hi.512"
    look_up = cgutils.get_or_insert_function(builder.module, shape, name)
    shifted = (
        builder.lshr(words, constant(4 * nibble, 2 * HALF, INT16))
        for nibble in range(4)
    )
    found = (builder.call(look_up, [table, each]) for each in shifted)
    return [builder.bitcast(each, vector(HALF, INT32)) for each in found]


def scaled_floats(
    builder: ir.IRBuilder,
    half: ir.Value,
    bits: int,
    scale: ir.Value,
    shift: ir.Value | None,
) -> list[ir.Value]:
    """Returns code · scale + shift for each of 8 inputs, 16 outputs each."""
    floats = code_floats(builder, half, bits)
    if shift is None:
        return [builder.fmul(each, scale) for each in floats]
    return [multiply_add(builder, each, scale, shift) for each in floats]


def load_halves(
    builder: ir.IRBuilder, address: ir.Value, group: ir.Value
) -> Sequence[ir.Value]:
    """Loads a group's numbers of both halves, float32 [groups, 2, 16]."""
    at = offset(builder, address, group, 4 * OUTPUTS)
    return [load(builder, offset(builder, at, half, 4 * HALF), HALF) for half in (0, 1)]


def _eight_bits(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    pointer = builder.inttoptr(address, vector(HALF, _INT8).as_pointer())
    wide = builder.sext(builder.load(pointer, align=1), vector(HALF, INT32))
    return builder.sitofp(wide, vector(HALF))


def _four_bits(builder: ir.IRBuilder, words: ir.Value, nibble: int) -> ir.Value:
    """Converts one 4-bit integer of each 32-bit word."""
    if LANES == HALF:
        table = ir.Constant(vector(HALF), [float(value) for value in _SIGNED])
        shape = ir.FunctionType(vector(HALF, FLOAT), [vector(HALF), words.type])
        name = "llvm.x86.avx512.permvar.sf.512"
        look_up = cgutils.get_or_insert_function(builder.module, shape, name)
        shifted = builder.lshr(words, constant(4 * nibble, HALF, INT32))
        return builder.call(look_up, [table, shifted])
    raised = builder.shl(words, constant(28 - 4 * nibble, HALF, INT32))
    signed = builder.ashr(raised, constant(28, HALF, INT32))
    return builder.sitofp(signed, vector(HALF))


def _upper_half(value: float) -> int:
    """Returns the bits of a number that bfloat16 holds exactly."""
    return int.from_bytes(struct.pack("<f", value)[2:], "little")
