"""Calls of the C library and single instructions, as intrinsics for numba.

Functions are called by address, so that compiled kernels can be kept on disk.
"""

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.vectors import INT32, INT64, Emit
from hookline_kernels.failure import KernelError

FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""Number of Linux's call `futex` on each kind of machine."""
FUTEX_WAIT = 9 | 128
"""FUTEX_WAIT_BITSET of one process."""
FUTEX_WAKE = 10 | 128
"""FUTEX_WAKE_BITSET of one process."""
MONOTONIC, THREAD_TIME = 1, 3
"""CLOCK_MONOTONIC, and CLOCK_THREAD_CPUTIME_ID, a thread's time on cores."""
ALL = (1 << 31) - 1


@cache
def futex_number() -> int:
    """Returns the number of the system call `futex`.

    Raises:
        KernelError: This system has none, or it is unknown.
    """
    number = FUTEX_NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        machine = f"{platform.system()} on {platform.machine()}"
        raise KernelError(f"no threads for {machine}")
    return number


@cache
def address_in_libc(name: str) -> int:
    """Returns the address of a function of the C library."""
    function = getattr(ctypes.CDLL(None), name)
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def _call_with(
    _: object, function: types.Type, argument: types.Type
) -> tuple[Signature, Emit]:
    """Calls a function void(int64) by address."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [INT64]).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [args[1]])
        return context.get_dummy_value()

    return types.void(function, argument), emit


def _futex(  # noqa: PLR0917 - numba passes by position
    _: object,
    function: types.Type,
    number: types.Type,
    address: types.Type,
    operation: types.Type,
    value: types.Type,
    bits: types.Type,
) -> tuple[Signature, Emit]:
    """Waits at a futex or wakes its waiters, by `syscall`, given by address."""
    signature = types.int64(function, number, address, operation, value, bits)

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(INT64, [INT64] * 7).as_pointer()
        none = INT64(0)
        to_pass = [*args[1:5], none, none, args[5]]
        return builder.call(builder.inttoptr(args[0], kind), to_pass)

    return signature, emit


def _leave_core(_: object, function: types.Type) -> tuple[Signature, Emit]:
    """Calls `sched_yield`, given by address."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(INT32, []).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [])
        return context.get_dummy_value()

    return types.void(function), emit


def _nap(
    _: object,
    function: types.Type,
    microseconds: types.Type,  # noqa: ARG001 - an int64 whatever it is
) -> tuple[Signature, Emit]:
    """Calls `usleep`, given by address."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(INT32, [INT32]).as_pointer()
        short = builder.trunc(args[1], INT32)
        builder.call(builder.inttoptr(args[0], kind), [short])
        return context.get_dummy_value()

    return types.void(function, types.int64), emit


def _reading(clock: int) -> Callable[..., tuple[Signature, Emit]]:
    """Reads a clock by `clock_gettime`, given by address, in nanoseconds."""

    def read(_: object, function: types.Type) -> tuple[Signature, Emit]:
        def emit(
            _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
        ) -> ir.Value:
            place = cgutils.alloca_once(builder, INT64, size=INT64(2))
            kind = ir.FunctionType(INT32, [INT32, INT64.as_pointer()]).as_pointer()
            builder.call(builder.inttoptr(args[0], kind), [INT32(clock), place])
            seconds = builder.load(place)
            rest = builder.load(builder.gep(place, [INT64(1)]))
            return builder.add(builder.mul(seconds, INT64(10**9)), rest)

        return types.int64(function), emit

    return read


def _pause(_: object) -> tuple[Signature, Emit]:
    """Tells the core that this thread spins, where it has an instruction for it."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, __: list[ir.Value]
    ) -> ir.Value:
        if platform.machine() == "x86_64":
            kind, name, args = ir.FunctionType(ir.VoidType(), []), "x86.sse2.pause", []
        elif platform.machine() == "aarch64":
            kind = ir.FunctionType(ir.VoidType(), [INT32])
            name, args = "aarch64.hint", [INT32(1)]
        else:
            return context.get_dummy_value()
        call = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}")
        builder.call(call, args)
        return context.get_dummy_value()

    return types.void(), emit


call_with: Any = intrinsic(_call_with)
futex: Any = intrinsic(_futex)
leave_core: Any = intrinsic(_leave_core)
nap: Any = intrinsic(_nap)
nanoseconds: Any = intrinsic(_reading(MONOTONIC))
thread_nanoseconds: Any = intrinsic(_reading(THREAD_TIME))
pause: Any = intrinsic(_pause)
