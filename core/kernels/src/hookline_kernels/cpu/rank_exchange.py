"""Sums and gathers tensors over the ranks of one machine, through shared memory.

Tensors larger than a slot go through it in parts. Each rank adds the parts of all in
the order of ranks, in float32, so that all get the same bits. One thread of each rank
does so: what is exchanged in a step is small, or small beside the products of a long
prompt.
"""

import functools
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from hookline_kernels.cpu.elements import SCALARS, array_at
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.meeting import (
    CLOCK,
    HEAD_BYTES,
    RANK,
    SIZE,
    SLOT_BYTES,
    STATUS,
    meet,
    slot_of,
)
from hookline_kernels.cpu.memory import int_at
from hookline_kernels.cpu.rank_meeting import ALONE, RankMeeting, spend
from hookline_kernels.cpu.system_calls import nanoseconds
from hookline_kernels.cpu.vectors import INT64, LANES, Emit, load, offset, store

SLOT = 1 << 20
"""Bytes of a slot: two ranks' slots stay in a core's caches."""


def shared_bytes(size: int) -> int:
    """Returns the size of the memory that `size` ranks share."""
    return HEAD_BYTES + 2 * size * SLOT


def compile_for_ranks() -> None:
    """Compiles all kernels of an exchange.

    Raises:
        KernelError: No compiler is installed.
    """
    for dtype in SCALARS:
        _sum_kernel(dtype.itemsize)
    _gather_kernel()


class RankExchange(RankMeeting):
    """One rank's end of the exchange; for one thread. All ranks make the same calls."""

    def __init__(
        self, shared: int, rank: int, size: int, *, deadline_seconds: float
    ) -> None:
        """Attaches to the shared memory, of `shared_bytes`; see `RankMeeting`.

        Raises:
            KernelError: No compiler is installed, or the system is not supported.
            ValueError: There are more ranks than `MOST_RANKS`.
        """
        super().__init__(shared, rank, size, deadline_seconds=deadline_seconds)
        self._words[SLOT_BYTES] = SLOT
        self._sums = {dtype: _sum_kernel(dtype.itemsize) for dtype in SCALARS}
        self._gather = _gather_kernel()

    def all_reduce(self, values: torch.Tensor) -> None:
        """Replaces values by their sum over all ranks.

        It can be recorded. Once a rank has not come, it does nothing.

        Args:
            values: Contiguous, bfloat16 or float32, in main memory.
        """
        self._sums[values.dtype](
            ALONE,
            numbers_of(values.data_ptr(), values.numel(), self._words.ctypes.data),
        )

    def gather(self, part: torch.Tensor) -> torch.Tensor | None:
        """Returns the parts of all ranks, [size, ...], at rank 0; None elsewhere.

        Args:
            part: Contiguous, in main memory, of the same size in all ranks.
        """
        joined = None
        if self.rank == 0:
            joined = torch.empty((self.size, *part.shape), dtype=part.dtype)
        self._gather(
            ALONE,
            numbers_of(
                part.data_ptr(),
                part.nbytes,
                self._words.ctypes.data,
                0 if joined is None else joined.data_ptr(),
            ),
        )
        return joined


@functools.cache
def _sum_kernel(size: int) -> Kernel:
    def sum_over_ranks(numbers: Any) -> None:
        given = array_at(numbers, 4, np.int64)
        count, words = given[2], given[3]
        begun = nanoseconds(int_at(words, CLOCK))
        rank, ranks = int_at(words, RANK), int_at(words, SIZE)
        capacity = int_at(words, SLOT_BYTES) // size
        done = 0
        while done < count and int_at(words, STATUS) == 0:
            number = min(capacity, count - done)
            at = given[1] + done * size
            first = slot_of(words, 0)
            copy(slot_of(words, rank), at, number * size)
            if meet(words, number):
                stride = int_at(words, SLOT_BYTES)
                sum_slots(at, first, stride, ranks, number, size)
            done += number
        spend(words, begun)

    return Kernel(sum_over_ranks, f"sum-over-ranks-{size}")


@functools.cache
def _gather_kernel() -> Kernel:
    def gather_of_ranks(numbers: Any) -> None:
        given = array_at(numbers, 5, np.int64)
        total, words, output = given[2], given[3], given[4]
        begun = nanoseconds(int_at(words, CLOCK))
        rank = int_at(words, RANK)
        done = 0
        while done < total and int_at(words, STATUS) == 0:
            number = min(int_at(words, SLOT_BYTES), total - done)
            copy(slot_of(words, rank), given[1] + done, number)
            first = slot_of(words, 0)
            if meet(words, number) and output != 0:
                for other in range(int_at(words, SIZE)):
                    source = first + other * int_at(words, SLOT_BYTES)
                    copy(output + other * total + done, source, number)
            done += number
        spend(words, begun)

    return Kernel(gather_of_ranks, "gather-of-ranks")


def _copy(
    _: object, target: types.Type, source: types.Type, count: types.Type
) -> tuple[Signature, Emit]:
    """Copies bytes from address to address."""

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        kind = ir.IntType(8).as_pointer()
        to, at = (builder.inttoptr(each, kind) for each in args[:2])
        cgutils.raw_memcpy(builder, to, at, args[2], 1)
        return context.get_dummy_value()

    return types.void(target, source, count), emit


def _sum_slots(  # noqa: PLR0917 - numba passes by position
    _: object,
    target: Any,
    first: Any,
    stride: Any,
    ranks: Any,
    count: Any,
    size: Any,
) -> tuple[Signature, Emit]:
    """Sums `count` numbers of each rank's slot in the order of ranks; `size` is 2 or 4.

    The slots are `stride` bytes apart.
    """
    element = size.literal_value
    signature = types.void(target, first, stride, ranks, count, size)

    def emit(
        context: Any, builder: ir.IRBuilder, _: object, args: list[ir.Value]
    ) -> ir.Value:
        output, slot, apart, most, total = args[:5]
        whole = builder.udiv(total, INT64(LANES))
        rest = builder.mul(whole, INT64(LANES))
        for lanes, start, end in ((LANES, INT64(0), rest), (1, rest, total)):
            step = INT64(lanes)
            with cgutils.for_range_slice(builder, start, end, step) as (at, _):
                place = offset(builder, slot, at, element)
                own = cgutils.alloca_once_value(
                    builder, load(builder, place, lanes, element)
                )
                with cgutils.for_range_slice(builder, INT64(1), most, INT64(1)) as (
                    rank,
                    _,
                ):
                    there = builder.add(place, builder.mul(rank, apart))
                    more = load(builder, there, lanes, element)
                    builder.store(builder.fadd(builder.load(own), more), own)
                store(
                    builder,
                    builder.load(own),
                    offset(builder, output, at, element),
                    element,
                )
        return context.get_dummy_value()

    return signature, emit


copy: Any = intrinsic(_copy)
sum_slots: Any = intrinsic(prefer_literal=True)(_sum_slots)
