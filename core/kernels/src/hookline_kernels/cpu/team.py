"""The threads that compute kernels, one team a process.

They are Python threads. Each makes one compiled call, which runs without the
interpreter's lock and returns when the team is closed.
"""

import atexit
import ctypes
import os
import signal
import threading
import time
from functools import cache
from typing import Any

import numpy as np
import torch
from numba.core import types

from hookline_kernels.cpu import team_loop
from hookline_kernels.cpu.core_places import CorePlaces
from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.system_calls import address_in_libc, futex_number
from hookline_kernels.cpu.time_slices import SLICE_NS, take_short_slices

_MOST_THREADS = 8
"""Threads that a team may have on any machine: more than it has cores, for tests, and
cores that come later."""
_SPIN_INSIDE, _SPIN_BETWEEN, _BUSY_SPIN = 1_000_000, 3_000_000, 30_000
"""Nanoseconds that threads spin inside of a job, between jobs, and on a busy machine. A
virtual machine's core takes 50 µs and more to wake up."""
_COARSE_CLOCK = 6
"""Linux's CLOCK_MONOTONIC_COARSE, whose resolution is the distance of its ticks."""
_LINE = 8
"""int64s of a cache line."""
_EXIT_SECONDS = 1.0
"""Time for the last job when the interpreter exits."""

Words = np.ndarray[Any, np.dtype[np.int64]]


_Entry = ctypes.c_int64 * 3


class _Function:
    """A compiled function of int64s, which runs without the interpreter's lock."""

    def __init__(self, function: Any, arguments: int, name: str) -> None:
        signature: Any = types.void(*[types.intp] * arguments)
        # keeps the machine code
        self._compiled = compile_kernel(function.py_func, signature, name)
        kinds = [ctypes.c_int64] * arguments
        self._call = ctypes.CFUNCTYPE(None, *kinds)(self._compiled.address)

    def __call__(self, *arguments: int) -> None:
        self._call(*arguments)


class ThreadTeam:
    """Threads that compute a job together with the thread that brings it.

    Any thread may bring jobs; while one is computed, other callers compute theirs
    alone. Children of a fork start threads of their own.

    Attributes:
        max_threads: Most threads of a job, the caller included.
        keeps_cores: Whether each thread stays on a core of its own during a job.
    """

    def __init__(self, max_threads: int) -> None:
        """Makes a team without threads; the first job that wants them starts them.

        Raises:
            KernelError: No compiler is installed, or the system is not supported.
        """
        self.max_threads = max_threads
        self._run, self._serve, self._end = _functions()
        self._threads: int | None = None
        self.keeps_cores = False
        self.forget_threads()

    def forget_threads(self) -> None:
        """Forgets all threads; for a forked child, which has none of them."""
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._places = CorePlaces()
        self._caller = 0
        self._words = _new_words(self.max_threads)
        self._address = self._words.ctypes.data

    @property
    def threads(self) -> int:
        """Threads that the next job uses: torch's number, until it is set.

        Raises:
            ValueError: It is set to less than 1 or more than `max_threads`.
        """
        if self._threads is None:
            return min(torch.get_num_threads(), self.max_threads)
        return self._threads

    @threads.setter
    def threads(self, number: int) -> None:
        if not 1 <= number <= self.max_threads:
            raise ValueError(f"threads must be 1 to {self.max_threads}, not {number}")
        self._threads = number

    def run(self, entries: int, count: int, threads: int) -> None:
        """Computes kernels in order and waits, without the interpreter's lock.

        Args:
            entries: Address of the kernels, [count, 3] int64: address of the function
                void(argument), address of its argument, and 1 if one thread runs it.
            count: Number of kernels.
            threads: Number of threads that may take part.
        """
        if threads == 1 or not self._lock.acquire(blocking=False):
            self._run(self._address, entries, count, 1)
            return
        try:
            if len(self._workers) < threads - 1:
                self._start(threads - 1)
            if self._caller != threading.get_ident():
                self._caller = threading.get_ident()
                take_short_slices()
            with self._places.taken(self._computing(threads)):
                self._run(self._address, entries, count, threads)
        finally:
            self._lock.release()

    def run_one(self, function: int, argument: int, threads: int) -> None:
        """Computes one kernel and waits, like `run`."""
        entry = _Entry(function, argument, 0)
        self.run(ctypes.addressof(entry), 1, threads)

    def close(self, timeout_seconds: float = 60.0) -> bool:
        """Ends the threads, after the current job; the next job starts others.

        Returns False, and changes nothing, if that job takes longer than the timeout.
        """
        if not self._lock.acquire(timeout=timeout_seconds):
            return False
        try:
            self._end(self._address)
            for worker in self._workers:
                worker.join()
            self._workers = []
            self._places.forget()
            self._words[team_loop.IS_CLOSED] = 0
        finally:
            self._lock.release()
        return True

    @property
    def native_ids(self) -> tuple[int, ...]:
        """The system's ids of the threads, without callers."""
        ids = [worker.native_id for worker in self._workers]
        return tuple(each for each in ids if each is not None)

    @property
    def waited_ns(self) -> int:
        """Total time for which callers waited for threads of the team, in ns.

        The first microseconds of each wait are left out. Any thread may read it.
        """
        return int(self._words[team_loop.ROWS + team_loop.WAITED])

    def _computing(self, threads: int) -> tuple[int, ...]:
        """Workers of a job that stay on cores of their own, by the system's ids."""
        return self.native_ids[: threads - 1] if self.keeps_cores else ()

    def _serve_with(self, words: Words, index: int) -> None:
        """Runs a worker thread; holds the words, which it uses until it ends."""
        take_short_slices()
        self._serve(words.ctypes.data, index)

    def _start(self, count: int) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:  # threads inherit what is blocked: signals are for others
            for index in range(len(self._workers) + 1, count + 1):
                worker = threading.Thread(
                    target=self._serve_with,
                    args=(self._words, index),
                    name=f"hookline kernels {index}",
                    daemon=True,
                )
                worker.start()
                self._workers.append(worker)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def thread_team() -> ThreadTeam:
    """Returns this process's team.

    Raises:
        KernelError: No compiler is installed, or the system is not supported.
    """
    cores = os.cpu_count() or 1
    team = ThreadTeam(max(cores, torch.get_num_threads(), _MOST_THREADS))
    os.register_at_fork(after_in_child=team.forget_threads)
    # Before the machine code goes, in which they are.
    atexit.register(team.close, _EXIT_SECONDS)
    return team


@cache
def _functions() -> tuple[_Function, _Function, _Function]:
    """Compiles the loops of callers and workers, once per process."""
    return (
        _Function(team_loop.run_job, 4, "team-run"),
        _Function(team_loop.serve, 2, "team-serve"),
        _Function(team_loop.end_team, 1, "team-end"),
    )


def _new_words(max_threads: int) -> Words:
    """Returns a team's words, at the start of a cache line."""
    count = team_loop.ROWS + team_loop.ROW * max_threads
    memory = np.zeros(count + _LINE, np.int64)
    words = memory[-memory.ctypes.data // 8 % _LINE :][:count]
    words[team_loop.STATE] = 1 << 16
    words[team_loop.SYSCALL] = address_in_libc("syscall")
    words[team_loop.FUTEX] = futex_number()
    words[team_loop.CLOCK] = address_in_libc("clock_gettime")
    words[team_loop.YIELD] = address_in_libc("sched_yield")
    words[team_loop.SPIN_INSIDE] = _SPIN_INSIDE
    words[team_loop.SPIN_BETWEEN] = _SPIN_BETWEEN
    words[team_loop.BUSY_SPIN] = _BUSY_SPIN
    words[team_loop.TICK] = round(time.clock_getres(_COARSE_CLOCK) * 1e9)
    words[team_loop.SLICE] = SLICE_NS
    return words
