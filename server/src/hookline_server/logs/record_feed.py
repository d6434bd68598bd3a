"""Passes the records of the log to the stat loggers, in batches and from a thread."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from hookline.payloads import RecordsLogged
from hookline_processes.logged_record import LoggedRecord
from hookline_registry import Failure, isolate
from hookline_server.logs.safe_record import safe_record

MAX_WAITING = 2000
"""Maximum number of records that wait, those before the engine's start included."""

BATCH_SECONDS = 0.25
MAX_BATCH = 500

Deliver = Callable[[RecordsLogged], None]


class RecordFeed:
    """Collects records without blocking; a thread passes them on once it is started.

    Until then the records of the startup wait. A record that comes while too many wait
    is dropped and counted.
    """

    def __init__(self, *, max_waiting: int = MAX_WAITING) -> None:
        """Starts nothing yet."""
        self._max_waiting = max_waiting
        self._queue: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._missed = 0
        self._reported_missed = 0
        self._is_wanted = True
        self._is_ending = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, record: logging.LogRecord) -> None:
        """Queues a record that nobody changes any more; one thread at a time."""
        if not self._is_wanted:
            return
        if self._queue.qsize() >= self._max_waiting:
            self._missed += 1
            return
        self._queue.put(record)

    def start(self, deliver: Deliver) -> None:
        """Starts the thread, which calls `deliver` a few times per second."""
        self._thread = threading.Thread(
            target=self._run, args=(deliver,), name="log-records", daemon=True
        )
        self._thread.start()

    def discard(self) -> None:
        """Drops what waits and all that comes, because nobody wants it."""
        self._is_wanted = False
        while not self._queue.empty():
            self._queue.get()

    def close(self, timeout_seconds: float) -> None:
        """Passes on what waits and ends the thread; further records are dropped."""
        self._is_wanted = False
        self._is_ending.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self, deliver: Deliver) -> None:
        is_open = True
        while is_open:
            records = [self._queue.get()]
            self._is_ending.wait(BATCH_SECONDS)
            while len(records) < MAX_BATCH and not self._queue.empty():
                records.append(self._queue.get())
            is_open = None not in records
            self._deliver(deliver, [each for each in records if each is not None])

    def _deliver(self, deliver: Deliver, records: list[logging.LogRecord]) -> None:
        missed = self._missed
        made = [isolate(safe_record, each) for each in records]
        safe = tuple(each for each in made if isinstance(each, LoggedRecord))
        # A record with a field that cannot be shown is lost, and nothing else is.
        failed = sum(isinstance(each, Failure) for each in made)
        lost = missed - self._reported_missed + failed
        self._reported_missed = missed
        if safe or lost:
            isolate(deliver, RecordsLogged(records=safe, missed=lost))
