"""A few threads that render pages, and nothing else."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]


class PageThreads:
    """Threads that wait for work and do it, from the first work on.

    They are daemons: unlike an executor's, one that hangs does not hold the process
    back at its end.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, work: Work) -> None:
        """Does the work, which must not raise, as soon as a thread is free."""
        while len(self._threads) < self._count:
            thread = threading.Thread(
                target=self._run, name="hookline-page", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        self._work.put(work)

    def close(self) -> None:
        """Ends each thread once it is free; waits for none."""
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
