"""Runs a sequence of kernels by one call: the CPU's counterpart of a CUDA graph.

Starting a kernel from Python takes 20 to 40 µs, in which the other threads wait, and a
step starts a hundred. Here all threads walk the list of kernels themselves, with a
barrier where a kernel needs another thread's result.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.memory import clear, int_at, take
from hookline_kernels.cpu.team import Team, openmp
from hookline_kernels.cpu.vectors import INT64, Emit

_SIGNATURE: Any = types.void(types.intp)
_PATIENCE = 20_000
"""Spins at a barrier before the thread yields its core."""

Int64 = npt.NDArray[np.int64]


class Program:
    """Kernels in order, with their arguments.

    Attributes:
        entries: [kernels, 3] int64: address of the kernel, address of its argument, and
            1 if a single thread runs it.
    """

    def __init__(self, entries: Sequence[tuple[int, int, bool]]) -> None:
        """Wraps (address of void(argument), address of the argument, is alone) entries.

        Raises:
            KernelError: torch's threads cannot be reached on this machine.
        """
        self.entries = np.array(entries, np.int64).reshape(-1, 3)
        self._team = Team(program_kernel().address)
        addresses = [_address(openmp(), name) for name in _OPENMP]
        addresses.append(_address(ctypes.CDLL(None), "sched_yield"))
        self._header = np.array(
            [0, 0, len(entries), self.entries.ctypes.data, *addresses], np.int64
        )

    def run(self) -> None:
        """Runs all kernels and waits; what their arguments point to must be alive."""
        self._team.run(self._header.ctypes.data, torch.get_num_threads())


_OPENMP = ("omp_get_num_threads", "omp_get_thread_num")


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def program_kernel() -> Any:
    """Compiles the loop over a program's kernels, once a process.

    Raises:
        KernelError: No compiler is installed.
    """

    def walk(header: Any) -> None:
        given = array_at(header, 7, np.int64)
        count, entries = given[2], given[3]
        threads, own = ask_number(given[4]), ask_number(given[5])
        for index in range(count):
            at = entries + 24 * index
            is_alone = int_at(at, 2)
            if own == 0 or is_alone == 0:
                call_with(int_at(at, 0), int_at(at, 1))
            if threads == 1 or index + 1 == count:
                continue
            # No barrier between two kernels that the same single thread runs.
            if is_alone == 0 or int_at(at, 5) == 0:
                meet(header, threads, given[6])

    return compile_kernel(walk, _SIGNATURE, "program")


@exact
def meet(place: Any, threads: Any, leave_core: Any) -> None:
    """Barrier of `threads` threads; `place` is two int64s, initially 0."""
    turn = number_now(place + 8)
    if take(place, 1) == threads - 1:
        clear(place)
        take(place + 8, 1)
        return
    looks = 0
    while number_now(place + 8) == turn:
        looks += 1
        if looks > _PATIENCE:
            ask_number(leave_core)


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


def _ask_number(_: object, function: types.Type) -> tuple[Signature, Emit]:
    """Calls a function int() by address."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), []).as_pointer()
        found = builder.call(builder.inttoptr(args[0], kind), [])
        return builder.sext(found, INT64)

    return types.int64(function), emit


def _number_now(_: object, address: types.Type) -> tuple[Signature, Emit]:
    """Reads an int64 that other threads may change."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(address), emit


call_with: Any = intrinsic(_call_with)
ask_number: Any = intrinsic(_ask_number)
number_now: Any = intrinsic(_number_now)
