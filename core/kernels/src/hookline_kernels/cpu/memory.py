"""Reads and writes single numbers by address, as intrinsics for numba.

Threads share int64s through `take`, `exchange`, `replace_if` and `number_now`, which
are atomic and in one order for all threads.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import FLOAT, INT64, Emit, load_number, offset


def _address_of(_: object, pointer: types.Type) -> tuple[Signature, Emit]:
    """Converts a pointer to an integer."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        return builder.ptrtoint(args[0], INT64)

    return types.intp(pointer), emit


def _take(
    _: object,
    address: types.Type,
    count: types.Type,  # noqa: ARG001 - an int64 whatever it is
) -> tuple[Signature, Emit]:
    """Adds to an int64 that threads share, atomically; returns the old value."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(address, types.int64), emit


def _exchange(
    _: object, address: types.Type, number: types.Type
) -> tuple[Signature, Emit]:
    """Writes an int64 that threads share, atomically; returns the old value."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        return builder.atomic_rmw("xchg", pointer, args[1], "seq_cst")

    return types.int64(address, number), emit


def _replace_if(
    _: object, address: types.Type, expected: types.Type, number: types.Type
) -> tuple[Signature, Emit]:
    """Writes an int64 if it has the expected value, atomically; returns whether."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        found = builder.cmpxchg(pointer, args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(found, 1)

    return types.boolean(address, expected, number), emit


def _number_now(_: object, address: types.Type) -> tuple[Signature, Emit]:
    """Reads an int64 that other threads may change."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(address), emit


def _set_int(
    _: object,
    address: types.Type,
    index: types.Type,
    number: types.Type,  # noqa: ARG001 - an int64 whatever it is
) -> tuple[Signature, Emit]:
    """Writes an int64 of an array."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        at = offset(builder, args[0], args[1], 8)
        builder.store(args[2], builder.inttoptr(at, INT64.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(address, index, types.int64), emit


def _clear(_: object, address: types.Type) -> tuple[Signature, Emit]:
    """Sets an int64 to 0."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        builder.store(INT64(0), pointer, align=8)
        return context.get_dummy_value()

    return types.void(address), emit


def _int_at(
    _: object, address: types.Type, index: types.Type
) -> tuple[Signature, Emit]:
    """Reads an int64 of an array."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        at = offset(builder, args[0], args[1], 8)
        return builder.load(builder.inttoptr(at, INT64.as_pointer()), align=8)

    return types.int64(address, index), emit


def _float_at(
    _: object, address: types.Type, index: types.Type
) -> tuple[Signature, Emit]:
    """Reads a float32 of an array."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        return load_number(builder, offset(builder, args[0], args[1], 4))

    return types.float32(address, index), emit


def _set_float(
    _: object, address: types.Type, index: types.Type, number: types.Type
) -> tuple[Signature, Emit]:
    """Writes a float32 of an array."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        at = offset(builder, args[0], args[1], 4)
        builder.store(args[2], builder.inttoptr(at, FLOAT.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(address, index, number), emit


address_of: Any = intrinsic(_address_of)
take: Any = intrinsic(_take)
exchange: Any = intrinsic(_exchange)
replace_if: Any = intrinsic(_replace_if)
number_now: Any = intrinsic(_number_now)
set_int: Any = intrinsic(_set_int)
clear: Any = intrinsic(_clear)
int_at: Any = intrinsic(_int_at)
float_at: Any = intrinsic(_float_at)
set_float: Any = intrinsic(_set_float)
