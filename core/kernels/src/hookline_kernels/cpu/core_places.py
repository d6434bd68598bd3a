"""Keeps the threads of a team on cores of their own, while others want these, too."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


class CorePlaces:
    """The cores of a team's threads: one for each, or any for all.

    Linux spreads the threads that want to run evenly over cores. Where another process
    wants a core, it moves all threads about, and each loses its core now and then, the
    caller too. With places, one thread shares its core with that process while the
    others go on.
    """

    def __init__(self) -> None:
        self._current_core = ctypes.CDLL(None).sched_getcpu
        self._cores: dict[int, int] = {}

    @contextmanager
    def taken(self, workers: Sequence[int]) -> Iterator[None]:
        """Keeps the caller and these workers on cores of their own inside.

        The caller stays where it is, since the system has found it that core.
        Afterwards it may use all cores again, as threads that it starts inherit.
        Without workers, or with fewer cores than threads, all may use all cores.

        Args:
            workers: The system's ids of the workers.
        """
        if not workers and not self._cores:
            yield
            return
        allowed, here = os.sched_getaffinity(0), self._current_core()
        if not workers or here not in allowed or len(allowed) <= len(workers):
            self._leave(allowed)
            yield
            return
        self._place(workers, allowed - {here})
        _keep_on(0, {here})
        try:
            yield
        finally:
            _keep_on(0, allowed)

    def forget(self) -> None:
        """Forgets the workers, which have ended."""
        self._cores.clear()

    def _leave(self, allowed: set[int]) -> None:
        for worker in self._cores:
            _keep_on(worker, allowed)
        self._cores.clear()

    def _place(self, workers: Sequence[int], cores: set[int]) -> None:
        """Gives each worker one of the cores; those that have one of them keep it."""
        kept = {
            worker: core
            for worker, core in self._cores.items()
            if worker in workers and core in cores
        }
        free = sorted(cores - set(kept.values()), reverse=True)
        for worker in workers:
            if worker not in kept:
                kept[worker] = free.pop()
                _keep_on(worker, {kept[worker]})
        self._cores = kept


def _keep_on(thread: int, cores: set[int]) -> None:
    """Limits a thread, 0 for the calling one, to these cores."""
    with suppress(OSError):  # the process has just lost these cores
        os.sched_setaffinity(thread, cores)
