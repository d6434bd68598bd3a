"""A few threads that render pages."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]


class PageThreads:
    """A pool of threads that start with the first work.

    They are daemons: unlike an executor's threads, one that hangs does not delay the
    process's exit.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, work: Work) -> None:
        """Runs the work, which must not raise, when a thread is idle."""
        while len(self._threads) < self._count:
            thread = threading.Thread(
                target=self._run, name="hookline-page", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        self._work.put(work)

    def close(self) -> None:
        """Ends each thread when it is idle, without waiting for it."""
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
