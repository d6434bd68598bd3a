"""Runs a plugin's calls in a thread, with a timeout."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from hookline_registry.isolation import Failure, isolate

Job: TypeAlias = Callable[[], object]

LEAVE_SECONDS = 1.0
"""Longest wait for a running job at shutdown."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a job, or the failure that ended it."""

    outcome: object | Failure


class PluginThread:
    """Runs one job at a time, for one other thread.

    The thread is a daemon, because a job may never return. Shutdown waits a little for
    a late one: a process that exits while torch computes in a thread is aborted.

    Attributes:
        is_busy: Whether a job has not answered yet.
    """

    def __init__(self, plugin: str) -> None:
        """The thread starts with the first job; `plugin` is for its name."""
        self._name = f"hookline-{plugin}"
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_busy = False

    @property
    def ident(self) -> int:
        """The thread's identifier, as `threading.get_ident` returns it in a job."""
        ident = self._started().ident
        assert ident is not None
        return ident

    def run(self, job: Job, timeout_seconds: float) -> Answer | None:
        """Runs a job; returns None and stays busy if it exceeds the timeout."""
        self._started()
        self._jobs.put(job)
        self.is_busy = True
        return self._take(timeout_seconds)

    def take_late(self) -> Answer | None:
        """Returns the answer of a late job, or None if it still runs."""
        return self._take(0)

    def close(self) -> None:
        """Ends the thread after its current job."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(LEAVE_SECONDS)

    def _started(self) -> threading.Thread:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=self._name, daemon=True
            )
            self._thread.start()
        return self._thread

    def _take(self, timeout_seconds: float) -> Answer | None:
        try:
            answer = self._answers.get(timeout_seconds > 0, timeout_seconds)
        except queue.Empty:
            return None
        self.is_busy = False
        return answer

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._answers.put(Answer(isolate(job)))
