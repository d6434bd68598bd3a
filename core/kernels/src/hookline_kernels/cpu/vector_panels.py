"""Products of bfloat16 panels with rows, in the registers of CPUs with vectors.

Weights lie as `panels.lay_panels` has them. Rows are copied into blocks of `HEIGHT`
rows first: 32 inputs of each row of a block, then their next 32 inputs. A pair of
inputs is broadcast and multiplied with the pairs of all outputs, where the CPU is quick
at products of pairs (`has_quick_pairs`). Elsewhere both are float32: rows are converted
while they are copied, and weights, half of whose bits are 0 in float32, by a shift or a
mask. A panel that was expanded to memory may be float32 already, [in, 32].

Sums are computed in the order of the inputs, so that a token's result does not depend
on the batch.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.bfloat_pairs import add_dots, load_words, widened_pairs
from hookline_kernels.cpu.isa import Isa, current_isa, has_fast_bf16_dots
from hookline_kernels.cpu.vectors import (
    CACHE_LINE,
    INT16,
    INT32,
    INT64,
    LANES,
    Emit,
    constant,
    load,
    load_number,
    multiply_add,
    offset,
    prefetch,
    splat,
    store,
    vector,
    widened,
)

OUTPUTS = 32
"""Outputs in a panel."""
DEPTH = 32
"""Inputs that a block holds of each row, one row after another."""
HEIGHT = 12 if LANES == 16 else 6
"""Rows of a block: with two vectors of outputs, their sums fill most registers."""
_HEIGHTS = (1, 2, 4, 8, 12) if LANES == 16 else (1, 2, 4, 6)
"""Numbers of rows that have code of their own."""
SUM_BYTES = 4 * HEIGHT * OUTPUTS
"""Bytes of a block's sums, float32 [rows, 32]."""
_PITCH = 4 * OUTPUTS
"""Bytes of a pair of inputs in a panel."""
_AT_ONCE = 4
"""Pairs in one turn of the loop."""
_AHEAD = 4096
"""Prefetch distance, in bytes."""
WIDENED, PAIRS, EXPANDED = range(3)
"""Forms of products: bfloat16 weights in float32, pairs, and float32 weights."""


def has_pairs() -> bool:
    """Whether the CPU has products of pairs (AVX-512 BF16)."""
    return current_isa().includes(Isa.AVX512_BF16)


def has_quick_pairs() -> bool:
    """Whether products of pairs are there, and take less time than in float32."""
    return has_pairs() and has_fast_bf16_dots()


def step_bytes(form: int) -> int:
    """Returns the bytes of 32 inputs of a block."""
    return HEIGHT * _row_bytes(form)


def panel_step_bytes(form: int) -> int:
    """Returns the bytes of 32 inputs of a panel."""
    return DEPTH // 2 * _pitch(form)


def _row_bytes(form: int) -> int:
    return 2 * DEPTH if form == PAIRS else 4 * DEPTH


def _pitch(form: int) -> int:
    """Returns the bytes of a pair of inputs in a panel."""
    return 2 * _PITCH if form == EXPANDED else _PITCH


def _copy_block(  # noqa: PLR0917 - numba passes by position
    _: object,
    values: Any,
    row_bytes: Any,
    rows: Any,
    steps: Any,
    block: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """Copies `steps` times 32 inputs of rows into a block; other rows become 0.

    For pairs they stay bfloat16; otherwise they become float32. `form` is a literal.
    """
    given = (values, row_bytes, rows, steps, block)
    row_size, step_size = (
        _row_bytes(form.literal_value),
        step_bytes(form.literal_value),
    )

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        source, pitch, count, length, target = args[:5]
        for row in range(HEIGHT):
            place = builder.add(target, INT64(row * row_size))
            start = builder.add(source, builder.mul(pitch, INT64(row)))
            is_there = builder.icmp_signed(">", count, INT64(row))
            with cgutils.for_range(builder, length, intp=INT64) as loop:
                at = offset(builder, start, loop.index, 2 * DEPTH)
                to = offset(builder, place, loop.index, step_size)
                with builder.if_else(is_there) as (there, missing):
                    with there:
                        _copy_inputs(builder, at, to, row_size)
                    with missing:
                        _clear_inputs(builder, to, row_size)
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given], form), emit


def _copy_inputs(
    builder: ir.IRBuilder, source: ir.Value, target: ir.Value, size: int
) -> None:
    """Copies 32 inputs of a row to `size` bytes: as bfloat16 or float32."""
    for half in range(2):
        pointer = vector(16, INT16).as_pointer()
        at = builder.inttoptr(offset(builder, source, half, DEPTH), pointer)
        bits = builder.load(at, align=2)
        place = offset(builder, target, half, size // 2)
        if size == 2 * DEPTH:
            builder.store(bits, builder.inttoptr(place, pointer), align=2)
        else:
            store(builder, widened(builder, bits), place)


def _clear_inputs(builder: ir.IRBuilder, target: ir.Value, size: int) -> None:
    for part in range(0, size, CACHE_LINE):
        store(builder, constant(0.0, 16), builder.add(target, INT64(part)))


def _multiply_block(  # noqa: PLR0917 - numba passes by position
    _: object,
    rows: Any,
    panel: Any,
    steps: Any,
    sums: Any,
    goes_on: Any,
    height: Any,
    form: Any,
) -> tuple[Signature, Emit]:
    """sums[r, o] = Σ rows[r, i] · panel[o, i], for at least `height` rows of a block.

    Computes `steps` times 32 inputs, and adds to the present sums if it `goes_on`.
    `form` is a literal.
    """
    given = (rows, panel, steps, sums, goes_on, height)
    which = form.literal_value

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        _multiply_least(builder, args, _HEIGHTS, which)
        return context.get_dummy_value()

    return types.void(*[types.intp for _ in given], form), emit


def _multiply_least(
    builder: ir.IRBuilder, args: list[ir.Value], heights: tuple[int, ...], form: int
) -> None:
    """Takes the least of these numbers of rows that is enough."""
    high, *others = heights
    if not others:
        _multiply_rows(builder, args, high, form)
        return
    is_enough = builder.icmp_signed("<=", args[5], INT64(high))
    with builder.if_else(is_enough) as (enough, more):
        with enough:
            _multiply_rows(builder, args, high, form)
        with more:
            _multiply_least(builder, args, tuple(others), form)


def _multiply_rows(
    builder: ir.IRBuilder, args: list[ir.Value], high: int, form: int
) -> None:
    # Few rows pass a panel once, many in parts whose sums fit the registers.
    wide = OUTPUTS if LANES == 16 or high <= 2 else OUTPUTS // 2
    for first in range(0, OUTPUTS, wide):
        _multiply_part(builder, args, high, range(first, first + wide, LANES), form)


def _multiply_part(
    builder: ir.IRBuilder,
    args: list[ir.Value],
    high: int,
    outputs: range,
    form: int,
) -> None:
    """Computes vectors of outputs that begin at these."""
    size, pitch = _row_bytes(form), _pitch(form)
    pair_bytes = size // (DEPTH // 2)
    block, panel, steps, sums, goes_on = args[:5]
    places = [
        [builder.add(sums, INT64(4 * (row * OUTPUTS + at))) for at in outputs]
        for row in range(high)
    ]
    totals = _open_sums(builder, places, goes_on)
    with cgutils.for_range(builder, steps, intp=INT64) as loop:
        rows = offset(builder, block, loop.index, HEIGHT * size)
        lines = offset(builder, panel, loop.index, panel_step_bytes(form))
        turns = INT64(DEPTH // 2 // _AT_ONCE)
        with cgutils.for_range(builder, turns, intp=INT64) as inner:
            for each in range(_AT_ONCE):
                own = offset(builder, rows, inner.index, _AT_ONCE * pair_bytes)
                own = builder.add(own, INT64(each * pair_bytes))
                line = offset(builder, lines, inner.index, _AT_ONCE * pitch)
                line = builder.add(line, INT64(each * pitch))
                if outputs.start == 0 and form != EXPANDED:
                    prefetch(builder, line, range(_AHEAD, _AHEAD + _PITCH))
                if form == PAIRS:
                    columns = _load_columns(builder, line, outputs)
                    _add_pairs(builder, own, columns, totals)
                else:
                    numbers_of = _float_columns(builder, line, outputs, form)
                    _add_floats(builder, own, numbers_of, totals)
    for row, line in zip(totals, places, strict=True):
        for total, place in zip(row, line, strict=True):
            store(builder, builder.load(total), place)


def _open_sums(
    builder: ir.IRBuilder, places: list[list[ir.Value]], goes_on: ir.Value
) -> list[list[ir.Value]]:
    """Returns variables that hold the sums so far."""
    zero = constant(0.0, LANES)
    totals = [
        [cgutils.alloca_once_value(builder, zero) for _ in line] for line in places
    ]
    with builder.if_then(builder.icmp_signed("!=", goes_on, INT64(0))):
        for row, line in zip(totals, places, strict=True):
            for total, place in zip(row, line, strict=True):
                builder.store(load(builder, place, LANES), total)
    return totals


def _load_columns(
    builder: ir.IRBuilder, line: ir.Value, outputs: range
) -> list[ir.Value]:
    """Loads a pair of inputs of each vector of outputs."""
    places = (builder.add(line, INT64(4 * at)) for at in outputs)
    return [load_words(builder, at, LANES) for at in places]


def _float_columns(
    builder: ir.IRBuilder, line: ir.Value, outputs: range, form: int
) -> Callable[[int], list[ir.Value]]:
    """Returns a function that gives either input of a pair in float32.

    What is called later is emitted later, so that few registers are in use.
    """
    if form == EXPANDED:

        def loaded(half: int) -> list[ir.Value]:
            start = builder.add(line, INT64(half * _PITCH))
            places = (builder.add(start, INT64(4 * at)) for at in outputs)
            return [load(builder, at, LANES) for at in places]

        return loaded
    columns = _load_columns(builder, line, outputs)

    def widened(half: int) -> list[ir.Value]:
        # LLVM drops the other half, which is widened later
        return [widened_pairs(builder, each)[half] for each in columns]

    return widened


def _add_pairs(
    builder: ir.IRBuilder,
    rows: ir.Value,
    columns: list[ir.Value],
    totals: list[list[ir.Value]],
) -> None:
    """Adds the products of one pair of inputs by `vdpbf16ps`."""
    for index, row in enumerate(totals):
        at = builder.add(rows, INT64(index * 2 * DEPTH))
        pair = builder.load(builder.inttoptr(at, INT32.as_pointer()), align=4)
        spread = splat(builder, pair, LANES)
        for total, column in zip(row, columns, strict=True):
            found = add_dots(builder, spread, column, builder.load(total))
            builder.store(found, total)


def _add_floats(
    builder: ir.IRBuilder,
    rows: ir.Value,
    numbers_of: Callable[[int], list[ir.Value]],
    totals: list[list[ir.Value]],
) -> None:
    """Adds the products of one pair of inputs, in float32."""
    for half in range(2):
        numbers = numbers_of(half)
        for index, row in enumerate(totals):
            at = builder.add(rows, INT64(index * 4 * DEPTH + 4 * half))
            number = splat(builder, load_number(builder, at), LANES)
            for total, column in zip(row, numbers, strict=True):
                found = multiply_add(builder, number, column, builder.load(total))
                builder.store(found, total)


copy_block: Any = intrinsic(prefer_literal=True)(_copy_block)
multiply_block: Any = intrinsic(prefer_literal=True)(_multiply_block)
