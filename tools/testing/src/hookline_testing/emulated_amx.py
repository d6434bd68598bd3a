"""The matrix unit's instructions as functions in plain LLVM IR, for CPUs without one.

A thread's tiles are in memory that belongs to it, under a key of pthread; the functions
allocate it on first use, and it is freed when the thread ends. As in the unit, numbers
too small for a normal float32 are zero, and sums of even and odd inputs are apart until
the end of an instruction, so that results have the same bits.
"""

import ctypes
from collections.abc import Callable, Iterable
from functools import cache

from llvmlite import binding, ir
from numba.core import cgutils

from hookline_kernels.cpu.vectors import (
    INT32,
    INT64,
    constant,
    multiply_add,
    offset,
    splat,
    vector,
)
from hookline_kernels.failure import KernelError

_ROWS = 16
_ROW_BYTES = 64
_TILE_BYTES = _ROWS * _ROW_BYTES
_CONFIG_BYTES = 64
_HEIGHTS = 48
"""Offset of the tiles' heights, a byte each, in a configuration."""
_STATE_BYTES = _CONFIG_BYTES + 8 * _TILE_BYTES
_KEY = "hookline_tile_key"
_SIGN, _EXPONENT, _UPPER = 0x80000000, 0x7F800000, 0xFFFF0000
_INT8 = ir.IntType(8)
_ADDRESS = _INT8.as_pointer()
_WORDS, _FLOATS = vector(_ROWS, INT32), vector(_ROWS)
_NOTHING = constant(0, _ROWS, INT32)


@cache
def publish_key() -> ctypes.c_uint64:
    """Makes the key of the threads' tiles known to compiled functions.

    Raises:
        KernelError: The system has no more keys.
    """
    library, key = ctypes.CDLL(None), ctypes.c_uint()
    free = ctypes.cast(library.free, ctypes.c_void_p)
    if library.pthread_key_create(ctypes.byref(key), free):
        raise KernelError("there is no key left for the threads' emulated tiles")
    place = ctypes.c_uint64(key.value)
    binding.add_symbol(_KEY, ctypes.addressof(place))
    return place


def emulate(builder: ir.IRBuilder, name: str, args: Iterable[ir.Value]) -> None:
    """Emits a call of the function for one instruction, named as in LLVM."""
    module, body = builder.module, _BODIES[name]
    given = list(args)
    shape = ir.FunctionType(ir.VoidType(), [each.type for each in given])
    function = cgutils.get_or_insert_function(module, shape, f"hookline_{name}")
    if function.is_declaration:
        inner = _open(function)
        body(inner, _state(inner), *function.args)
        inner.ret_void()
    builder.call(function, given)


def _open(function: ir.Function) -> ir.IRBuilder:
    """Starts a function that several linked modules may define."""
    function.linkage = "linkonce_odr"
    for attribute in ("noinline", "nounwind"):
        function.attributes.add(attribute)
    return ir.IRBuilder(function.append_basic_block())


def _state(builder: ir.IRBuilder) -> ir.Value:
    """Returns the address of this thread's configuration and tiles."""
    shape = ir.FunctionType(INT64, [])
    function = cgutils.get_or_insert_function(
        builder.module, shape, "hookline_tile_state"
    )
    if function.is_declaration:
        _define_state(_open(function))
    return builder.call(function, [])


def _define_state(builder: ir.IRBuilder) -> None:
    def declared(name: str, result: ir.Type, *kinds: ir.Type) -> ir.Function:
        shape = ir.FunctionType(result, kinds)
        return cgutils.get_or_insert_function(builder.module, shape, name)

    key = ir.GlobalVariable(builder.module, INT64, _KEY)
    number = builder.trunc(builder.load(key), INT32)
    find = declared("pthread_getspecific", INT64, INT32)
    found = builder.call(find, [number])
    with builder.if_then(builder.icmp_unsigned("!=", found, INT64(0))):
        builder.ret(found)
    allocate = declared("calloc", INT64, INT64, INT64)
    made = builder.call(allocate, [INT64(1), INT64(_STATE_BYTES)])
    keep = declared("pthread_setspecific", INT32, INT32, INT64)
    builder.call(keep, [number, made])
    builder.ret(made)


def _configure(builder: ir.IRBuilder, state: ir.Value, source: ir.Value) -> None:
    _copy_line(builder, builder.ptrtoint(source, INT64), state)
    for line in range(1, _STATE_BYTES // _ROW_BYTES):
        _store(builder, _NOTHING, offset(builder, state, line, _ROW_BYTES))


def _read_configuration(
    builder: ir.IRBuilder, state: ir.Value, target: ir.Value
) -> None:
    _copy_line(builder, state, builder.ptrtoint(target, INT64))


def _clear(builder: ir.IRBuilder, state: ir.Value, which: ir.Value) -> None:
    tile = _tile(builder, state, which)
    for row in range(_ROWS):
        _store(builder, _NOTHING, offset(builder, tile, row, _ROW_BYTES))


def _load_rows(
    builder: ir.IRBuilder,
    state: ir.Value,
    which: ir.Value,
    source: ir.Value,
    stride: ir.Value,
) -> None:
    _clear(builder, state, which)
    tile, start = _tile(builder, state, which), builder.ptrtoint(source, INT64)
    with cgutils.for_range(builder, _height(builder, state, which)) as loop:
        row = builder.add(start, builder.mul(loop.index, stride))
        _copy_line(builder, row, offset(builder, tile, loop.index, _ROW_BYTES))


def _store_rows(
    builder: ir.IRBuilder,
    state: ir.Value,
    which: ir.Value,
    target: ir.Value,
    stride: ir.Value,
) -> None:
    tile, start = _tile(builder, state, which), builder.ptrtoint(target, INT64)
    with cgutils.for_range(builder, _height(builder, state, which)) as loop:
        row = builder.add(start, builder.mul(loop.index, stride))
        _copy_line(builder, offset(builder, tile, loop.index, _ROW_BYTES), row)


def _multiply(
    builder: ir.IRBuilder,
    state: ir.Value,
    sums: ir.Value,
    rows: ir.Value,
    pairs: ir.Value,
) -> None:
    total, own, other = (_tile(builder, state, each) for each in (sums, rows, pairs))
    sides = [cgutils.alloca_once(builder, _WORDS, size=_ROWS) for _ in range(2)]
    for step in range(_ROWS):
        words = _load(builder, offset(builder, other, step, _ROW_BYTES))
        for side, half in zip(sides, _halves(builder, words), strict=True):
            builder.store(half, builder.gep(side, [INT64(step)]))
    with cgutils.for_range(builder, _height(builder, state, sums)) as loop:
        line = offset(builder, own, loop.index, _ROW_BYTES)
        place = offset(builder, total, loop.index, _ROW_BYTES)
        apart = [constant(0.0, _ROWS)] * 2
        for step in range(_ROWS):
            pointer = builder.inttoptr(
                offset(builder, line, step, 4), INT32.as_pointer()
            )
            halves = _halves(builder, splat(builder, builder.load(pointer), _ROWS))
            apart = [
                _added_product(
                    builder,
                    builder.bitcast(half, _FLOATS),
                    builder.bitcast(
                        builder.load(builder.gep(side, [INT64(step)])), _FLOATS
                    ),
                    so_far,
                )
                for half, side, so_far in zip(halves, sides, apart, strict=True)
            ]
        found = _sum(builder, *apart)
        before = builder.bitcast(_flushed(builder, _load(builder, place)), _FLOATS)
        found = _sum(builder, before, found)
        _store(builder, builder.bitcast(found, _WORDS), place)


def _multiply_bytes(
    builder: ir.IRBuilder,
    state: ir.Value,
    sums: ir.Value,
    rows: ir.Value,
    quads: ir.Value,
) -> None:
    total, own, other = (_tile(builder, state, each) for each in (sums, rows, quads))
    with cgutils.for_range(builder, _height(builder, state, sums)) as loop:
        line = offset(builder, own, loop.index, _ROW_BYTES)
        place = offset(builder, total, loop.index, _ROW_BYTES)
        found = _load(builder, place)
        for step in range(_ROWS):
            at = builder.inttoptr(offset(builder, line, step, 4), INT32.as_pointer())
            left = splat(builder, builder.load(at), _ROWS)
            right = _load(builder, offset(builder, other, step, _ROW_BYTES))
            for byte in range(4):
                sides = (_byte(builder, each, byte) for each in (left, right))
                found = builder.add(found, builder.mul(*sides))
        _store(builder, found, place)


def _byte(builder: ir.IRBuilder, words: ir.Value, at: int) -> ir.Value:
    """Widens one signed byte of each word."""
    raised = builder.shl(words, constant(24 - 8 * at, _ROWS, INT32))
    return builder.ashr(raised, constant(24, _ROWS, INT32))


def _halves(builder: ir.IRBuilder, words: ir.Value) -> list[ir.Value]:
    """Widens pairs of bfloat16 numbers: the first of each, and the second."""
    first = builder.shl(words, constant(16, _ROWS, INT32))
    second = builder.and_(words, constant(_UPPER, _ROWS, INT32))
    return [_flushed(builder, half) for half in (first, second)]


def _added_product(
    builder: ir.IRBuilder, left: ir.Value, right: ir.Value, total: ir.Value
) -> ir.Value:
    found = multiply_add(builder, left, right, total)
    return builder.bitcast(_flushed(builder, builder.bitcast(found, _WORDS)), _FLOATS)


def _sum(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    bits = builder.bitcast(builder.fadd(left, right), _WORDS)
    return builder.bitcast(_flushed(builder, bits), _FLOATS)


def _flushed(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Replaces numbers that are too small for a normal float32 by zero, signed."""
    exponent = builder.and_(bits, constant(_EXPONENT, _ROWS, INT32))
    is_normal = builder.icmp_unsigned("!=", exponent, _NOTHING)
    sign = builder.and_(bits, constant(_SIGN, _ROWS, INT32))
    return builder.select(is_normal, bits, sign)


def _tile(builder: ir.IRBuilder, state: ir.Value, which: ir.Value) -> ir.Value:
    tiles = builder.add(state, INT64(_CONFIG_BYTES))
    return offset(builder, tiles, builder.zext(which, INT64), _TILE_BYTES)


def _height(builder: ir.IRBuilder, state: ir.Value, which: ir.Value) -> ir.Value:
    place = builder.add(state, builder.zext(which, INT64))
    place = builder.add(place, INT64(_HEIGHTS))
    return builder.zext(builder.load(builder.inttoptr(place, _ADDRESS)), INT64)


def _copy_line(builder: ir.IRBuilder, source: ir.Value, target: ir.Value) -> None:
    _store(builder, _load(builder, source), target)


def _load(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Loads 64 bytes."""
    return builder.load(builder.inttoptr(address, _WORDS.as_pointer()), align=1)


def _store(builder: ir.IRBuilder, words: ir.Value, address: ir.Value) -> None:
    builder.store(words, builder.inttoptr(address, _WORDS.as_pointer()), align=1)


_BODIES: dict[str, Callable[..., None]] = {
    "ldtilecfg": _configure,
    "sttilecfg": _read_configuration,
    "tilezero": _clear,
    "tileloadd64": _load_rows,
    "tileloaddt164": _load_rows,
    "tilestored64": _store_rows,
    "tdpbf16ps": _multiply,
    "tdpbssd": _multiply_bytes,
}
