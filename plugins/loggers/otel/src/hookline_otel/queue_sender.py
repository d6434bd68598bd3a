"""A bounded queue of traces or log records and the thread that exports them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hookline_otel.delivery import Delivery
from hookline_otel.endpoint import Signal
from hookline_otel.export_thread import ExportThread
from hookline_registry import Failure, isolate

INTERVAL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0

SLICE_ITEMS = 8
SLICE_PAUSE_SECONDS = 0.0002
"""Pause after each slice. Encoding holds the interpreter's lock, so a whole batch at
once would stall an engine in the same process."""

P_co = TypeVar("P_co", covariant=True)
P = TypeVar("P")


class Item(Protocol[P_co]):
    """Something to export, of one or several parts.

    It is encoded only when it is sent, so what is dropped costs nothing.
    """

    @property
    def num_parts(self) -> int:
        """Number of parts that `encode` returns."""
        ...

    def encode(self) -> Sequence[P_co]:
        """Encodes the parts; called in the export thread."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a sender exports.

    Attributes:
        signal: Signal, which names the thread.
        parts: What the parts are called, such as `spans`.
        max_waiting: Maximum queued items; beyond it the oldest is dropped.
        max_batch: An export has no further item once it has this many parts.
    """

    signal: Signal
    parts: str
    max_waiting: int
    max_batch: int


SPANS = Load(signal=Signal.TRACES, parts="spans", max_waiting=2048, max_batch=512)

# Records may have tracebacks of kilobytes, and collectors refuse messages above 4 MiB.
LOG_RECORDS = Load(
    signal=Signal.LOGS, parts="log records", max_waiting=4096, max_batch=128
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Cumulative numbers of parts by outcome.

    Attributes:
        exported: Parts that the collector accepted.
        failed: Parts whose encoding or export failed.
        dropped: Parts dropped by a full or closed queue, or before they came to it.
    """

    exported: int = 0
    failed: int = 0
    dropped: int = 0


class QueueSender(Generic[P]):
    """Queues items from any thread without blocking and exports them."""

    def __init__(
        self,
        delivery: Delivery,
        wrap: Callable[[Sequence[P]], bytes],
        load: Load,
    ) -> None:
        """Creates the sender without starting its thread.

        Args:
            delivery: Shut down with the sender.
            wrap: Makes an export request of encoded parts.
            load: What the items are.
        """
        self._delivery = delivery
        self._wrap = wrap
        self._load = load
        self._lock = threading.Lock()
        self._waiting: deque[Item[P]] = deque()
        self._counts = Counts()
        self._failures = 0
        self._is_closed = False
        self.thread = ExportThread(load.signal, self._work, delivery.shutdown)

    @property
    def counts(self) -> Counts:
        with self._lock:
            return self._counts

    def offer(self, item: Item[P]) -> None:
        """Queues an item; a full queue drops its oldest, a closed one the new one."""
        with self._lock:
            if self._is_closed:
                self._count(dropped=item.num_parts)
                return
            if len(self._waiting) >= self._load.max_waiting:
                self._count(dropped=self._waiting.popleft().num_parts)
            self._waiting.append(item)
            is_filling = len(self._waiting) * 4 >= self._load.max_waiting
        if is_filling and not self._failures:
            self.thread.wake()

    def missed(self, num_parts: int) -> None:
        """Counts parts that were dropped before they came here."""
        with self._lock:
            self._count(dropped=num_parts)

    def close(self, timeout_seconds: float) -> None:
        """Waits at most `timeout_seconds` for the export, then drops the rest."""
        self.thread.request_stop()
        self.thread.wait(timeout_seconds)
        with self._lock:
            self._is_closed = True
            remaining = sum(item.num_parts for item in self._waiting)
            self._waiting.clear()
            self._count(dropped=remaining)
        self.thread.interrupt()  # lets it log the error, if any
        if remaining:
            self._delivery.report_loss("shutdown timed out", self._lost)

    def _work(self) -> float:
        while batch := self._take():
            if not self._send(batch):
                self._failures += 1
                return min(2.0**self._failures, MAX_PAUSE_SECONDS)
            self._failures = 0
        return INTERVAL_SECONDS

    def _take(self) -> list[P]:
        """Returns encoded parts of the oldest items, empty if none are queued."""
        parts: list[P] = []
        items = 0
        while len(parts) < self._load.max_batch and (item := self._next()) is not None:
            parts += self._encode(item)
            items += 1
            if items % SLICE_ITEMS == 0:
                time.sleep(SLICE_PAUSE_SECONDS)
        return parts

    def _next(self) -> Item[P] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _encode(self, item: Item[P]) -> Sequence[P]:
        """Encodes an item; one that cannot be encoded counts as failed."""
        parts = isolate(item.encode)
        if not isinstance(parts, Failure):
            return parts
        with self._lock:
            self._count(failed=item.num_parts)
        self._delivery.report_loss(parts.summary, self._lost)
        return []

    def _send(self, parts: Sequence[P]) -> bool:
        why = self._delivery.export(lambda: self._wrap(parts))
        with self._lock:
            if why is None:
                self._count(exported=len(parts))
            else:
                self._count(failed=len(parts))
        if why is not None:
            self._delivery.report_loss(why, self._lost)
        return why is None

    def _count(self, *, exported: int = 0, failed: int = 0, dropped: int = 0) -> None:
        counts = self._counts
        self._counts = Counts(
            counts.exported + exported,
            counts.failed + failed,
            counts.dropped + dropped,
        )

    @property
    def _lost(self) -> str:
        counts = self.counts
        return f"{counts.failed + counts.dropped} {self._load.parts}"
