"""Rows as integers: each group of a token's inputs in 8 bits, with a scale.

For each group of inputs a block of rows holds their codes, some inputs of one row after
another, in quads (`quantized_weight.QUADS`); then, for each row, the scale, where a sum
of products with unsigned codes begins, and the sum of the group's numbers, which shifts
are multiplied by. A scale is that of the largest number; if a number is not finite the
scale is not either, and neither are the products.
"""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.bfloat_pairs import store_words
from hookline_kernels.cpu.vectors import (
    FLOAT,
    INT32,
    INT64,
    LANES,
    Emit,
    constant,
    load,
    offset,
    reduce,
    splat,
    vector,
)
from hookline_kernels.quantized_weight import (
    LEAST_ACTIVATION,
    LEAST_GROUP,
    MOST_ACTIVATION,
    OUTPUTS,
    QUADS,
    UNIT,
)

VECTORS_HEIGHT = 12 if LANES == 16 else 4
TILES_HEIGHT = 32
_PIECE = 16
"""Numbers in a vector."""
_SIZE = 0x7FFFFFFF
_ROUNDING = 1.5 * 2**23
"""What is added to a small number has its integer in the lowest bits."""
_ROUNDING_BITS = 0x4B400000


@dataclass(frozen=True, slots=True)
class Blocks:
    """How rows lie in blocks.

    Attributes:
        height: Rows of a block.
        step: Inputs that lie side by side of each row.
        group: Inputs of a group.
    """

    height: int
    step: int
    group: int

    @property
    def group_bytes(self) -> int:
        """Returns the bytes of a group of a block."""
        return self.height * (self.group + 12)

    @property
    def sum_bytes(self) -> int:
        """Returns the bytes of the sums of a block and a panel, float32."""
        return 4 * self.height * OUTPUTS

    def fact(self, builder: ir.IRBuilder, line: ir.Value, fact: int) -> ir.Value:
        """Returns the address of a group's scales (0), starts (1) or sums (2)."""
        return builder.add(line, INT64(self.height * (self.group + 4 * fact)))


def blocks_of(group: int, *, in_tiles: bool) -> Blocks:
    """Returns the blocks that are multiplied by tiles, or in registers.

    The sums of the latter fill most registers.
    """
    if in_tiles:
        return Blocks(TILES_HEIGHT, min(group, 2 * LEAST_GROUP), group)
    return Blocks(VECTORS_HEIGHT, LEAST_GROUP, group)


def _quantize_rows(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    row_bytes: Any,
    rows: Any,
    groups: Any,
    block: Any,
    group: Any,
    in_tiles: Any,
    zero: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Writes groups of at most a block's rows into it; other rows stay what they are.

    The literals are those of `blocks_of`, what is added to the weight's codes (`zero`),
    and the bytes of a number.
    """
    given = (values, row_bytes, rows, groups, block)
    length, width = group.literal_value, size.literal_value
    blocks = blocks_of(length, in_tiles=bool(in_tiles.literal_value))
    added = zero.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, pitch, count, parts, target = args[:5]
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            start = builder.add(source, builder.mul(pitch, loop.index))
            with cgutils.for_range(builder, parts, intp=INT64) as inner:
                own = offset(builder, start, inner.index, length * width)
                line = offset(builder, target, inner.index, blocks.group_bytes)
                numbers = [
                    load(builder, builder.add(own, INT64(at * width)), _PIECE, width)
                    for at in range(0, length, _PIECE)
                ]
                _write_group(builder, numbers, line, loop.index, blocks, added)
        return context.get_dummy_value()

    literals = (group, in_tiles, zero, size)
    return types.void(*[types.intp for _ in given], *literals), emit


def _write_group(  # noqa: PLR0917 - called at one place
    builder: ir.IRBuilder,
    numbers: list[ir.Value],
    line: ir.Value,
    row: ir.Value,
    blocks: Blocks,
    zero: int,
) -> None:
    """Quantizes one row's group."""
    peak = _largest(builder, numbers)
    scale = builder.fmul(peak, FLOAT(1 / MOST_ACTIVATION))
    is_nothing = builder.fcmp_ordered("<", peak, FLOAT(LEAST_ACTIVATION))
    inverse = builder.fdiv(FLOAT(MOST_ACTIVATION), peak)
    inverse = builder.select(is_nothing, FLOAT(0.0), inverse)
    spread, total = splat(builder, inverse, _PIECE), constant(0, _PIECE, INT32)
    for at, each in enumerate(numbers):
        scaled = builder.fadd(builder.fmul(each, spread), constant(_ROUNDING, _PIECE))
        codes = builder.bitcast(scaled, vector(_PIECE, INT32))
        codes = builder.sub(codes, constant(_ROUNDING_BITS, _PIECE, INT32))
        total = builder.add(total, codes)
        place, step = offset(builder, line, row, blocks.step), blocks.step
        start = at * _PIECE // step * blocks.height * step + at * _PIECE % step
        _store_quads(builder, codes, builder.add(place, INT64(start)))
    count = reduce(builder, total, _sum)
    facts = (
        scale,
        builder.mul(count, INT32(-zero)),
        builder.fmul(scale, builder.sitofp(count, FLOAT)),
    )
    for at, fact in enumerate(facts):
        place = offset(builder, blocks.fact(builder, line, at), row, 4)
        builder.store(fact, builder.inttoptr(place, fact.type.as_pointer()), align=4)


def _largest(builder: ir.IRBuilder, numbers: list[ir.Value]) -> ir.Value:
    """Returns the largest size of a number; not a number is larger than all."""
    kind = vector(_PIECE, INT32)
    sizes = [
        builder.and_(builder.bitcast(each, kind), constant(_SIZE, _PIECE, INT32))
        for each in numbers
    ]
    largest, *others = sizes
    for each in others:
        largest = _larger(builder, largest, each)
    return builder.bitcast(reduce(builder, largest, _larger), FLOAT)


def _store_quads(builder: ir.IRBuilder, codes: ir.Value, address: ir.Value) -> None:
    """Stores 16 codes as bytes, in the order of `QUADS`."""
    narrow = builder.trunc(codes, vector(_PIECE, ir.IntType(8)))
    order = [unit + each for unit in range(0, _PIECE, UNIT) for each in QUADS]
    places = ir.Constant(vector(_PIECE, INT32), order)
    store_words(builder, builder.shuffle_vector(narrow, narrow, places), address, 1)


def _larger(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_unsigned(">", left, right), left, right)


def _sum(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return builder.add(left, right)


quantize_rows: Any = intrinsic(prefer_literal=True)(_quantize_rows)
