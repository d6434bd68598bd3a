"""Many kernels, one after another, by one call: what a graph is on a GPU.

To start a kernel from Python takes 20 to 40 µs, in which the other threads wait, and a
step starts a hundred. Here all threads walk over a list of kernels by themselves, and
meet where one needs what another thread made.
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
"""Looks at whether the others have come, before the core is left to other processes."""

Int64 = npt.NDArray[np.int64]


class Program:
    """Kernels that were started once, to be started again with the same arguments.

    Attributes:
        entries: [kernels, 3] int64: its address, that of its argument, and whether one
            thread alone computes it.
    """

    def __init__(self, entries: Sequence[tuple[int, int, bool]]) -> None:
        """Takes (address of void(argument), argument, is alone)s, in their order.

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
        """Returns when all are done. What arguments point to must still be there."""
        self._team.run(self._header.ctypes.data, torch.get_num_threads())


_OPENMP = ("omp_get_num_threads", "omp_get_thread_num")


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


@cache
def program_kernel() -> Any:
    """Compiled once a process, and kept: programs hold its address.

    Raises:
        KernelError: There is no compiler.
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
            # Whoever computes alone goes on with what comes next for it alone.
            if is_alone == 0 or int_at(at, 5) == 0:
                meet(header, threads, given[6])

    return compile_kernel(walk, _SIGNATURE, "program")


@exact
def meet(place: Any, threads: Any, leave_core: Any) -> None:
    """Returns when so many threads have come; `place` is two int64s, 0 at first."""
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
    """Calls void(int64) by its address."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [INT64]).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [args[1]])
        return context.get_dummy_value()

    return types.void(function, argument), emit


def _ask_number(_: object, function: types.Type) -> tuple[Signature, Emit]:
    """Calls int() by its address."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), []).as_pointer()
        found = builder.call(builder.inttoptr(args[0], kind), [])
        return builder.sext(found, INT64)

    return types.int64(function), emit


def _number_now(_: object, address: types.Type) -> tuple[Signature, Emit]:
    """An int64 that other threads may change."""

    def emit(
        _: object, builder: ir.IRBuilder, __: object, args: list[ir.Value]
    ) -> ir.Value:
        pointer = builder.inttoptr(args[0], INT64.as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(address), emit


call_with: Any = intrinsic(_call_with)
ask_number: Any = intrinsic(_ask_number)
number_now: Any = intrinsic(_number_now)
