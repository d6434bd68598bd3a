"""Counts what becomes of spans and log records, and bounds how many wait."""

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Counts:
    """Cumulative numbers of parts by outcome.

    Attributes:
        exported: Parts that the collector accepted.
        failed: Parts that could not be made, or whose export failed.
        dropped: Parts dropped by a full or closed queue, or before they came to it.
    """

    exported: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def lost(self) -> int:
        return self.failed + self.dropped


class Tally:
    """Counts the parts of a signal; thread-safe.

    The SDK's queue drops its oldest parts without a count. What is more than fits in it
    does not get there.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_closed = False
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        with self._lock:
            return self._counts

    def admit(self, parts: int) -> bool:
        """Lets parts wait for their export, all or none; the others are dropped."""
        with self._lock:
            if self._is_closed or self._waiting + parts > self._most_waiting:
                self._add(dropped=parts)
                return False
            self._waiting += parts
            return True

    def missed(self, parts: int) -> None:
        """Counts parts that were dropped before they came here."""
        with self._lock:
            self._add(dropped=parts)

    def ended(self, parts: int, *, is_exported: bool) -> None:
        """Counts parts that no longer wait; those dropped meanwhile stay so."""
        with self._lock:
            parts = min(parts, self._waiting)
            self._waiting -= parts
            if is_exported:
                self._add(exported=parts)
            else:
                self._add(failed=parts)

    def close(self) -> int:
        """Drops what waits and what comes; returns the number of parts that waited."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, 0
            self._add(dropped=waiting)
            return waiting

    def _add(self, *, exported: int = 0, failed: int = 0, dropped: int = 0) -> None:
        counts = self._counts
        self._counts = replace(
            counts,
            exported=counts.exported + exported,
            failed=counts.failed + failed,
            dropped=counts.dropped + dropped,
        )
