"""Sets the number of threads that compute each step, by the cores they really get."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hookline_host.cpu_quota import CpuQuota
from hookline_kernels.runtime.threads.core_pacer import CorePacer
from hookline_kernels.runtime.threads.neighbours import Neighbours
from hookline_kernels.runtime.threads.quota_share import QuotaShare
from hookline_kernels.runtime.threads.scheduling import (
    ThreadTimes,
    busy_ns,
    thread_times,
)
from hookline_kernels.runtime.threads.torch_threads import torch_threads

_log = logging.getLogger(__name__)

_INTERVAL_NS = 200_000_000
"""Time between two readings of the machine's state."""
_NOTABLE = 0.5
"""Change of the cores that are used, or that neighbours want, that is logged."""
_CALM_NS = 10_000_000_000
"""Time between two lines of the log that are about neighbours alone."""


class StepThreads(NamedTuple):
    """What the threads of a step did; times are in ns.

    Attributes:
        threads: Number of threads that computed the step.
        barrier_wait_ns: Time in which threads waited for each other, summed over them.
        running_ns: Time of the threads on cores since the last report. Several steps
            share a report: it is 0 in most of them, as are the times below.
        preempted_ns: Time in which threads could run, but had no core.
        throttled_ns: Time in which the control group's CPU quota stopped the process.
    """

    threads: int
    barrier_wait_ns: int
    running_ns: int = 0
    preempted_ns: int = 0
    throttled_ns: int = 0


class ComputingTeam(Protocol):
    """The threads that compute a step together with the one that starts it.

    Attributes:
        keeps_cores: Whether each thread stays on a core of its own during a step.
    """

    keeps_cores: bool

    @property
    def native_ids(self) -> Sequence[int]:
        """The system's ids of the threads that exist, without the one that starts."""
        ...

    @property
    def waited_ns(self) -> int:
        """Total time for which the starting thread waited for others, in ns."""
        ...


class ThreadGovernor:
    """Watches the machine and sets torch's number of threads, which kernels use, too.

    The number follows the quota of the control group, step by step; between steps torch
    has all threads, for other engines. Beside neighbours all threads compute, on cores
    of their own while that keeps some out of their way. Called by the thread that
    computes steps.
    """

    def __init__(
        self, team: ComputingTeam, *, is_fixed: bool, engines: int = 1
    ) -> None:
        """Starts with all threads of this process.

        Args:
            team: The threads.
            is_fixed: Whether it measures only, and changes nothing.
            engines: Number of processes that divide the quota.
        """
        self._team = team
        self._is_fixed = is_fixed
        self._torch = torch_threads()
        self._most = self._threads = self._torch.take_all()
        self._cores = float(self._most)
        self._reported = (self._cores, 0.0)
        self._pacer, self._neighbours = CorePacer(), Neighbours()
        self._quota = QuotaShare(CpuQuota(), engines)
        self._looked_at = self._stepped_at = time.monotonic_ns()
        self._reported_at = self._looked_at - _CALM_NS
        self._cpu_at_look = self._cpu_at_step = time.process_time_ns()
        self._busy = busy_ns(os.sched_getaffinity(0))
        self._times = self._thread_times()
        self._waited = team.waited_ns
        self._choose(len(os.sched_getaffinity(0)))

    def close(self) -> None:
        """Lets threads leave their cores, for other engines."""
        self._team.keeps_cores = False

    def begin_step(self) -> None:
        """Sets the number of threads for the step that follows."""
        if self._is_fixed:
            return
        threads = self._most
        if self._cores < self._most:
            now, used = time.monotonic_ns(), time.process_time_ns()
            passed, self._stepped_at = now - self._stepped_at, now
            spent, self._cpu_at_step = used - self._cpu_at_step, used
            threads = min(self._most, self._pacer.threads(self._cores, passed, spent))
        self._threads = threads
        if threads < self._most:
            self._torch.lower(threads)

    def end_step(self) -> StepThreads:
        """Gives torch all threads back.

        Returns:
            What the threads did since the last step's report.
        """
        if self._threads < self._most:
            self._torch.restore()
        waited, threads = self._team.waited_ns, self._threads
        barrier_wait_ns, self._waited = waited - self._waited, waited
        if time.monotonic_ns() - self._looked_at < _INTERVAL_NS:
            return StepThreads(threads, barrier_wait_ns)
        times = self._look()
        return StepThreads(
            threads=threads,
            barrier_wait_ns=barrier_wait_ns,
            running_ns=times.running,
            preempted_ns=times.preempted,
            throttled_ns=self._quota.look(),
        )

    def _look(self) -> ThreadTimes:
        """Reads the machine's state; returns the threads' times since the last look."""
        now, used = time.monotonic_ns(), time.process_time_ns()
        passed, self._looked_at = now - self._looked_at, now
        own, self._cpu_at_look = used - self._cpu_at_look, used
        cores = os.sched_getaffinity(0)
        before, self._busy = self._busy, busy_ns(cores)
        times, self._times = self._times, self._thread_times()
        running = max(0, self._times.running - times.running)
        preempted = max(0, self._times.preempted - times.preempted)
        self._neighbours.update(
            cores=len(cores),
            busy=(self._busy - before) / passed,
            own=own / passed,
            running=running / passed,
            preempted=preempted / passed,
        )
        self._choose(len(cores))
        return ThreadTimes(running, preempted)

    def _thread_times(self) -> ThreadTimes:
        return thread_times((threading.get_native_id(), *self._team.native_ids))

    def _choose(self, cores: int) -> None:
        """Decides how many cores the next steps use, and logs a notable change."""
        if self._is_fixed:
            return
        allowed = self._quota.cores
        self._cores = float(self._most if allowed is None else min(self._most, allowed))
        self._team.keeps_cores = (
            cores <= self._most <= self._cores and self._neighbours.leave_a_core(cores)
        )
        found = (self._cores, self._neighbours.wanted)
        own, others = (abs(a - b) for a, b in zip(found, self._reported, strict=True))
        is_calm = self._looked_at - self._reported_at < _CALM_NS
        if own < _NOTABLE and (others < _NOTABLE or is_calm):
            return
        self._reported, self._reported_at = found, self._looked_at
        quota = self._quota.quota
        _log.info(
            "steps use %.1f of %d cores; other processes want %.1f; %s",
            self._cores,
            self._most,
            self._neighbours.wanted,
            "no CPU quota" if quota is None else f"the CPU quota is {quota:g}",
        )
