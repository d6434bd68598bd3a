"""The processes of ranks, and the thread that starts, watches and ends them."""

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec

from hookline.exceptions import RankError
from hookline_processes.supervised import Supervised
from hookline_ranks.processes.links import RankLinks
from hookline_registry import Failure, isolate

_MODULE = "hookline_ranks.processes.rank_process"
_GRACE_SECONDS = 2.0
_END_SECONDS = 30.0
"""Time for the thread to end all processes, by force if need be."""
_log = logging.getLogger(__name__)


class RankProcesses:
    """Processes of ranks that live and die together.

    The thread that starts them lives as long as they may: the kernel kills them when
    the thread that has started them ends, however that comes.
    """

    def __init__(self, links: Sequence[RankLinks], on_end: Callable[[], None]) -> None:
        """Starts a process for each rank.

        Args:
            links: What each rank inherits.
            on_end: Called in the thread once a rank has ended by itself, after
                `failure` is set. The others are killed then.
        """
        self._links = links
        self._on_end = on_end
        self._processes: list[Supervised] = []
        self._failure: tuple[int, str] | None = None
        self._closing = os.eventfd(0, os.EFD_CLOEXEC)
        self._has_begun = threading.Event()
        self._thread = threading.Thread(
            target=self._own, name="hookline-ranks", daemon=True
        )
        self._thread.start()
        self._has_begun.wait()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, by rank."""
        return tuple(each.pid for each in self._processes)

    @property
    def failure(self) -> RankError | None:
        """The error about the rank that has ended first, although nobody ended it."""
        return None if self._failure is None else RankError(*self._failure)

    def close(self) -> None:
        """Ends the processes: those that have been asked to end get two seconds."""
        if self._closing >= 0:
            os.eventfd_write(self._closing, 1)
            self._thread.join(_END_SECONDS)
            if self._thread.is_alive():  # it still reads the descriptor
                _log.error("processes of ranks have not ended in %g s", _END_SECONDS)
            else:
                os.close(self._closing)
            self._closing = -1

    def _own(self) -> None:
        started = isolate(self._start_all)
        if isinstance(started, Failure):
            reason = f"its process cannot be started: {started.error}"
            self._failure = (len(self._processes), reason)
        self._has_begun.set()
        if self._failure is None:
            watched = isolate(self._watch)
            if isinstance(watched, Failure):
                self._fail(0, f"its process cannot be watched: {watched.error}")
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in self._processes:
            left = 0.0 if self._failure is not None else deadline - time.monotonic()
            process.close(max(0.0, left))

    def _start_all(self) -> None:
        for links in self._links:
            self._processes.append(_start(links))

    def _watch(self) -> None:
        """Returns once the processes are to end, or one of them has ended."""
        with ExitStack() as opened:
            watched = []
            for process in self._processes:
                watched.append(os.pidfd_open(process.pid))
                opened.callback(os.close, watched[-1])
            poll = select.poll()
            for descriptor in (*watched, self._closing):
                poll.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
        if self._closing in ready:
            return
        rank = next(at for at, each in enumerate(watched) if each in ready)
        self._fail(rank, self._processes[rank].end_reason or "its process has ended")

    def _fail(self, rank: int, reason: str) -> None:
        """Kills all processes, and tells that one has ended."""
        self._failure = (self._links[rank].rank, reason)
        for process in self._processes:
            process.kill()
        self._on_end()


def _start(links: RankLinks) -> Supervised:
    return Supervised(
        _MODULE,
        [msgspec.json.encode(links).decode()],
        name=f"rank {links.rank}",
        pass_fds=links.descriptors,
    )
