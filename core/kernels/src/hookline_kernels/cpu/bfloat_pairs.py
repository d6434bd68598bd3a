"""Pairs of bfloat16 numbers in vectors of 32-bit words, as dot products take them.

The first number of a pair is the lower half of its word, as in memory. bfloat16 is the
upper half of float32, so shifts and masks convert one to the other.
"""

from llvmlite import ir
from numba.core import cgutils

from hookline_kernels.cpu.isa import Isa, current_isa
from hookline_kernels.cpu.vectors import (
    INT32,
    BFloat,
    constant,
    joined,
    part,
    vector,
)

_UPPER = -(1 << 16)
"""Mask of a word's upper half."""


def load_words(
    builder: ir.IRBuilder, address: ir.Value, lanes: int, align: int = 4
) -> ir.Value:
    """Loads words, aligned to `align` bytes."""
    pointer = builder.inttoptr(address, vector(lanes, INT32).as_pointer())
    return builder.load(pointer, align=align)


def store_words(
    builder: ir.IRBuilder, words: ir.Value, address: ir.Value, align: int = 4
) -> None:
    """Stores words, or vectors of any other type, at an address of this alignment."""
    builder.store(words, builder.inttoptr(address, words.type.as_pointer()), align)


def interleaved(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Joins two vectors of 16-bit numbers to pairs, number by number."""
    lanes = first.type.count
    order = [place for index in range(lanes) for place in (index, lanes + index)]
    mask = ir.Constant(vector(2 * lanes, INT32), order)
    both = builder.shuffle_vector(first, second, mask)
    return builder.bitcast(both, vector(lanes, INT32))


def exact_pairs(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Joins two vectors of float32 that bfloat16 represents exactly, to pairs."""
    words = vector(first.type.count, INT32)
    low, high = (builder.bitcast(each, words) for each in (first, second))
    return builder.or_(builder.lshr(low, constant(16, words.count, INT32)), high)


def rounded_pairs(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Rounds two vectors of float32 to pairs: to nearest, ties away from zero."""
    lanes = first.type.count
    half = constant(0x8000, lanes, INT32)
    low, high = (
        builder.add(builder.bitcast(each, vector(lanes, INT32)), half)
        for each in (first, second)
    )
    low = builder.lshr(low, constant(16, lanes, INT32))
    high = builder.and_(high, constant(_UPPER, lanes, INT32))
    return builder.or_(low, high)


def widened_pairs(builder: ir.IRBuilder, words: ir.Value) -> list[ir.Value]:
    """Converts pairs to two vectors of float32: the first numbers, and the second."""
    lanes = words.type.count
    first = builder.shl(words, constant(16, lanes, INT32))
    second = builder.and_(words, constant(_UPPER, lanes, INT32))
    return [builder.bitcast(each, vector(lanes)) for each in (first, second)]


def add_dots(
    builder: ir.IRBuilder, left: ir.Value, right: ir.Value, total: ir.Value
) -> ir.Value:
    """Adds dot products of pairs to 16 numbers, by AVX-512 BF16 or NEON's BFDOT.

    Args:
        builder: Emits the instructions.
        left: 16 pairs, in 64 bytes of any type.
        right: Likewise.
        total: float32; both products of a lane's pairs are added to the lane.
    """
    name, lanes = "llvm.x86.avx512bf16.dpbf16ps.512", 16
    if current_isa() is Isa.NEON_BF16:
        name, lanes = "llvm.aarch64.neon.bfdot.v4f32.v8bf16", 4
    kind, pairs = vector(lanes), vector(2 * lanes, BFloat())
    shape = ir.FunctionType(kind, [kind, pairs, pairs])
    call = cgutils.get_or_insert_function(builder.module, shape, name)
    sides = [builder.bitcast(side, vector(16, INT32)) for side in (left, right)]
    found = [
        builder.call(
            call,
            [
                part(builder, total, at, lanes),
                *(
                    builder.bitcast(part(builder, side, at, lanes), pairs)
                    for side in sides
                ),
            ],
        )
        for at in range(0, 16, lanes)
    ]
    while len(found) > 1:
        found = [joined(builder, *found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]
