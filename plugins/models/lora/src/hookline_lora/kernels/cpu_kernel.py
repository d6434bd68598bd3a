"""One kernel call for all adapters of a step, for one product of the base model.

Up to `FEW` rows, as in decoding, threads first share the ranks of A·x, and then the
panels of B·t: whoever has no ranks left waits for those that others are computing, so
that one call does both. More rows, as in prompts, are cut into blocks, for which a
thread computes both products by itself. The fastest are rows of bfloat16 on CPUs with
quick products of pairs; inputs that fill no steps of 64 bytes, and outputs that fill no
panels of 16, are computed one by one.
"""

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.launching import Kernel
from hookline_kernels.cpu.memory import int_at, number_now, take
from hookline_kernels.cpu.panels import own_memory
from hookline_kernels.cpu.system_calls import leave_core, pause
from hookline_lora.kernels.cpu_parts import (
    ARGUMENTS,
    HEAD,
    PART,
    SLICE,
    SLOT,
    expanding,
    shrinking,
)
from hookline_lora.kernels.cpu_tiles import ROWS, STEP_BYTES, sum_size_of

FEW = 64
"""Most rows of a step whose threads share each product."""
MOST_RANKS = 4096
"""Most ranks of all layers of a product together: a row's are on a thread's stack."""
_BLOCK = 32
"""Rows of a block, unless they have very many ranks."""
_ROOM = 64 << 10
"""Bytes of a thread's memory for A·x of a block."""
_EDGE = ROWS * STEP_BYTES
"""Bytes of the last inputs of a tile's rows, or of a panel's outputs."""
_MANY_GROUPS = 4
"""Groups that give all threads work in larger tasks."""
_SPINS = 500
"""Pauses, some 10 to 20 µs in all, before a thread that waits gives up its core."""
_DONE = 1 << 32
"""What is added to the counter of tasks when one of the first product is done."""


@functools.cache
def adapting_kernel(form: int) -> Kernel:
    """Compiles the kernel for a form of `cpu_tiles`; see `cpu_parts` for its arguments.

    Raises:
        KernelError: No compiler is installed.
    """
    add_few, add_blocks = _few(form), _blocks(form)

    def adapt(numbers: Any) -> None:
        given = array_at(numbers, ARGUMENTS, np.int64)
        counts = array_at(given[2], 2, np.int32)
        rows, groups = counts[0], counts[1]
        room, edge = own_memory(_ROOM), own_memory(_EDGE)
        if rows > FEW:
            add_blocks(numbers, groups, room, edge)
        elif rows > 0:
            add_few(numbers, groups, edge)

    return Kernel(adapt, f"lora-{form}-{_source_stamp()}")


@exact
def _slot_of(numbers: int, group: int) -> Any:
    """Returns the address of a group's slot in the site's table."""
    slot = array_at(int_at(numbers, 4), group + 1, np.int32)[group]
    return int_at(numbers, 1) + 8 * (HEAD + slot * (SLOT + PART * int_at(numbers, 11)))


@exact
def _panels(numbers: int) -> int:
    """Returns the panels of all slices."""
    total = 0
    for index in range(int_at(numbers, 11)):
        total += int_at(int_at(numbers, 10) + 8 * SLICE * index, 4)
    return total


def _few(form: int) -> Any:
    shrink, expand, sum_size = shrinking(form), expanding(form), sum_size_of(form)

    @exact
    def add_few(numbers: int, groups: int, edge: int) -> None:
        """Shares both products of all groups."""
        starts = array_at(int_at(numbers, 3), groups + 1, np.int32)
        at_once = 16 if groups >= _MANY_GROUPS else 4
        pitch = sum_size * int_at(int_at(numbers, 1), 1)
        sums = int_at(int_at(numbers, 1), 0)
        task, begun = take(numbers, 1) % _DONE, 0
        for group in range(groups):
            slot, first = _slot_of(numbers, group), starts[group]
            ranks = int_at(slot, 1)
            tasks = (ranks + at_once - 1) // at_once
            while task < begun + tasks:
                begin = (task - begun) * at_once
                end = min(begin + at_once, ranks)
                own = sums + first * pitch
                shrink(
                    numbers, slot, first, starts[group + 1], begin, end, own, pitch,
                    edge,
                )  # fmt: skip
                take(numbers, _DONE)
                task = take(numbers, 1) % _DONE
            begun += tasks
        panels = _panels(numbers)
        at_once = 64 if groups >= _MANY_GROUPS else 16
        chunks = (panels + at_once - 1) // at_once
        while task < begun + chunks * groups:
            spins = 0
            while number_now(numbers) // _DONE < begun:
                spins += 1
                if spins < _SPINS:
                    pause()
                else:  # the thread that is waited for may need this core
                    leave_core(int_at(numbers, 12))
            group, chunk = (task - begun) // chunks, (task - begun) % chunks
            first, begin = starts[group], chunk * at_once
            expand(
                numbers, _slot_of(numbers, group), first, starts[group + 1],
                begin, min(begin + at_once, panels), sums + first * pitch, pitch, edge,
            )  # fmt: skip
            task = take(numbers, 1) % _DONE

    return add_few


def _blocks(form: int) -> Any:
    shrink, expand, sum_size = shrinking(form), expanding(form), sum_size_of(form)

    @exact
    def add_blocks(numbers: int, groups: int, room: int, edge: int) -> None:
        """Shares blocks of rows."""
        starts = array_at(int_at(numbers, 3), groups + 1, np.int32)
        panels = _panels(numbers)
        task, begun = take(numbers, 1), 0
        for group in range(groups):
            slot, end = _slot_of(numbers, group), starts[group + 1]
            ranks = int_at(slot, 1)
            if ranks == 0:
                continue
            high = min(_ROOM // (4 * ranks), _BLOCK)
            tasks = (end - starts[group] + high - 1) // high
            while task < begun + tasks:
                first = starts[group] + (task - begun) * high
                last = min(first + high, end)
                pitch = sum_size * ranks
                shrink(numbers, slot, first, last, 0, ranks, room, pitch, edge)
                expand(numbers, slot, first, last, 0, panels, room, pitch, edge)
                task = take(numbers, 1)
            begun += tasks

    return add_blocks


@functools.cache
def _source_stamp() -> str:
    """Returns a digest of these sources; the cache knows only those of its package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("cpu_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
