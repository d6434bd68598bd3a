"""Reads once in a while what the processes of a server take."""

import os
import threading

from hookline_metrics.front_end_parts import ProcessStats
from hookline_processes.usage import ProcessTree

SECONDS = 1.0
"""Time between two readings, each of which takes a millisecond or two."""


class ProcessWatch:
    """This process and those that it has started, directly or not.

    Attributes:
        stats: The latest reading.
    """

    def __init__(self) -> None:
        """Reads for the first time."""
        self._tree = ProcessTree(os.getpid())
        self._lock = threading.Lock()
        self._waited = 0.0
        self.renew()

    def renew(self) -> None:
        """Reads all processes; for any thread."""
        with self._lock:
            self.stats = ProcessStats(roles=self._tree.read())

    def look(self, seconds: float) -> None:
        """Reads them if the last reading is old; for the watching thread.

        Args:
            seconds: Time since the last look.
        """
        self._waited += seconds
        if self._waited >= SECONDS:
            self._waited = 0.0
            self.renew()
