"""Calls a proposer in a thread of its own, and does not wait for ever."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from hookline_registry import Failure, isolate

Job: TypeAlias = Callable[[], object]

LEAVE_SECONDS = 1.0
"""A job that has not come back after so long when all ends is left behind."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job returned, or the failure it ended with."""

    outcome: object | Failure


class ProposerThread:
    """One job at a time; used by one other thread.

    It is a daemon, for a job may never end. One that is late is waited for a little: a
    process that ends while torch computes in a thread of it is aborted.

    Attributes:
        is_busy: Whether the answer of a job is still to come.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_busy = False

    def run(self, job: Job, timeout_seconds: float) -> Answer | None:
        """Has a job done; None if it was not done in time, and is busy from then on."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="hookline-proposer", daemon=True
            )
            self._thread.start()
        self._jobs.put(job)
        self.is_busy = True
        return self._take(timeout_seconds)

    def take_late(self) -> Answer | None:
        """The answer of the job that was not done in time, once it has come."""
        return self._take(0)

    def close(self) -> None:
        """Lets the thread end, behind the job it has."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(LEAVE_SECONDS)

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
