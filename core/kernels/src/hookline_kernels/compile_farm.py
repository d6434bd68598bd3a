"""Compiles kernels in several processes at a time.

The compiler holds the interpreter's lock, so that threads gain nothing. A forked
process has the kernel's source and shapes as they are, and leaves the machine code in
the cache, from which this process reads it.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess

from hookline_kernels.failure import KernelError, KernelNotKeptError
from hookline_kernels.missing import CompiledKernel

_NOT_KEPT = 3
"""Exit code of a process that has compiled a kernel in vain."""
_KILLED_SECONDS = 5.0
"""Time for the kernel to end a process that was killed."""


@dataclass(slots=True)
class _Job:
    """A kernel to compile.

    Attributes:
        variant: Its name in the cache.
        compile_now: Compiles it, or reads it from the cache.
        process: Compiles it; None before it has begun.
        started: When it began, in seconds of `time.monotonic`.
        exit_code: The process's; None before it has ended.
    """

    variant: str
    compile_now: Callable[[], CompiledKernel]
    process: ForkProcess | None = None
    started: float = 0.0
    exit_code: int | None = None


class CompileFarm:
    """Compiles the kernels that are missing; for one thread, without other threads.

    Kernels are compiled in the order in which they are asked for, except that one whose
    address is needed comes first.

    Attributes:
        not_kept: How many were compiled and could not be written to the cache.
    """

    def __init__(self, processes: int, on_end: Callable[[str, float, bool], None]):
        """Starts nothing yet.

        Args:
            processes: Largest number of processes that compile at a time.
            on_end: Called with each kernel's name, the seconds that its compilation
                took, and whether it succeeded.
        """
        self._context = multiprocessing.get_context("fork")
        self._most, self._on_end = processes, on_end
        self.not_kept = 0
        self._jobs: dict[str, _Job] = {}
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []

    def take(
        self, variant: str, compile_now: Callable[[], CompiledKernel]
    ) -> "PendingKernel":
        """Implements `MissingKernels`.

        Raises:
            KernelError: Kernels cannot be written to the cache.
        """
        job = self._jobs.get(variant)
        if job is None:
            if self.not_kept:
                raise KernelError(f"{variant} could not be kept")
            job = self._jobs[variant] = _Job(variant, compile_now)
            self._waiting.append(job)
            self._start_waiting()
        return PendingKernel(self, job)

    def finish(self) -> None:
        """Waits until all kernels are compiled."""
        while self._running:
            self._wait_for_one()

    def close(self) -> None:
        """Ends all processes; kernels that are not complete are not in the cache."""
        self._waiting.clear()
        for job in self._running:
            assert job.process is not None
            job.process.kill()
            job.process.join(_KILLED_SECONDS)
        self._running.clear()

    def compiled(self, job: _Job) -> CompiledKernel:
        """Waits for a kernel, and reads it from the cache.

        Raises:
            KernelError: It cannot be compiled.
        """
        if job in self._waiting:  # something waits for it
            self._waiting.remove(job)
            self._waiting.insert(0, job)
        while job.exit_code is None:
            self._start_waiting()
            self._wait_for_one()
        if job.exit_code:
            raise KernelError(f"{job.variant} could not be compiled")
        return job.compile_now()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._most:
            job = self._waiting.pop(0)
            job.started = time.monotonic()
            job.process = self._context.Process(
                target=_compile, args=[job.compile_now], daemon=True
            )
            job.process.start()
            self._running.append(job)

    def _wait_for_one(self) -> None:
        sentinels = [job.process.sentinel for job in self._running if job.process]
        ended = wait(sentinels)
        for job in [*self._running]:
            assert job.process is not None
            if job.process.sentinel not in ended:
                continue
            job.process.join()  # its end was seen
            job.exit_code = job.process.exitcode
            self._running.remove(job)
            self.not_kept += job.exit_code == _NOT_KEPT
            if job.exit_code != _NOT_KEPT:
                seconds = time.monotonic() - job.started
                self._on_end(job.variant, seconds, job.exit_code == 0)
        self._start_waiting()


class PendingKernel:
    """A kernel that is being compiled.

    Raises:
        KernelError: At the first use of its address: it could not be compiled.
    """

    def __init__(self, farm: CompileFarm, job: _Job) -> None:
        self._farm, self._job = farm, job
        self._compiled: CompiledKernel | None = None

    @property
    def address(self) -> int:
        """Waits until the kernel is compiled."""
        if self._compiled is None:
            self._compiled = self._farm.compiled(self._job)
        return self._compiled.address


def _compile(compile_now: Callable[[], CompiledKernel]) -> None:
    """Compiles a kernel in a process of its own, whose exit code tells of success."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        compile_now()
    except KernelNotKeptError:
        raise SystemExit(_NOT_KEPT) from None
    except KernelError:
        raise SystemExit(1) from None
