"""A bounded queue of traces and the thread that exports them."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hookline_otel.delivery import Delivery
from hookline_otel.envelope import Envelope
from hookline_otel.export_thread import ExportThread
from hookline_otel.spans import Trace
from hookline_registry import Failure, isolate

MAX_WAITING = 2048
"""Maximum queued traces; beyond it the oldest is dropped."""

BATCH_SPANS = 512
INTERVAL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0

SLICE_TRACES = 8
SLICE_PAUSE_SECONDS = 0.0002
"""Pause after each slice. Encoding holds the interpreter's lock, so a whole batch at
once would stall an engine in the same process."""


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Cumulative numbers of spans by outcome.

    Attributes:
        exported: Spans that the collector accepted.
        failed: Spans whose encoding or export failed.
        dropped: Spans dropped by a full or closed queue.
    """

    exported: int = 0
    failed: int = 0
    dropped: int = 0


class SpanSender:
    """Queues traces from any thread without blocking and exports them."""

    def __init__(
        self,
        delivery: Delivery,
        envelope: Envelope,
        *,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._delivery = delivery
        self._envelope = envelope
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._waiting: deque[Trace] = deque()
        self._counts = SpanCounts()
        self._failures = 0
        self._is_closed = False
        self.thread = ExportThread("traces", self._work, delivery.shutdown)

    @property
    def counts(self) -> SpanCounts:
        with self._lock:
            return self._counts

    def offer(self, trace: Trace) -> None:
        """Queues a trace; a full queue drops its oldest, a closed one the new one."""
        with self._lock:
            if self._is_closed:
                self._count(dropped=trace.span_count)
                return
            if len(self._waiting) >= self._max_waiting:
                self._count(dropped=self._waiting.popleft().span_count)
            self._waiting.append(trace)
            is_filling = len(self._waiting) * 4 >= self._max_waiting
        if is_filling and not self._failures:
            self.thread.wake()

    def close(self, timeout_seconds: float) -> None:
        """Waits at most `timeout_seconds` for the export, then drops the rest."""
        self.thread.end()
        self.thread.wait(timeout_seconds)
        with self._lock:
            self._is_closed = True
            remaining = sum(trace.span_count for trace in self._waiting)
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

    def _take(self) -> list[bytes]:
        """Returns encoded spans of the oldest traces, empty if none are queued."""
        spans: list[bytes] = []
        traces = 0
        while len(spans) < BATCH_SPANS and (trace := self._next()) is not None:
            spans += self._encode(trace)
            traces += 1
            if traces % SLICE_TRACES == 0:
                time.sleep(SLICE_PAUSE_SECONDS)
        return spans

    def _next(self) -> Trace | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _encode(self, trace: Trace) -> list[bytes]:
        """Encodes a trace; one that cannot be encoded counts as failed."""
        spans = isolate(trace.encode)
        if not isinstance(spans, Failure):
            return spans
        with self._lock:
            self._count(failed=trace.span_count)
        self._delivery.report_loss(spans.summary, self._lost)
        return []

    def _send(self, spans: Sequence[bytes]) -> bool:
        why = self._delivery.send(lambda: self._envelope.wrap(spans))
        with self._lock:
            if why is None:
                self._count(exported=len(spans))
            else:
                self._count(failed=len(spans))
        if why is not None:
            self._delivery.report_loss(why, self._lost)
        return why is None

    def _count(self, *, exported: int = 0, failed: int = 0, dropped: int = 0) -> None:
        counts = self._counts
        self._counts = SpanCounts(
            counts.exported + exported,
            counts.failed + failed,
            counts.dropped + dropped,
        )

    @property
    def _lost(self) -> str:
        counts = self.counts
        return f"{counts.failed + counts.dropped} spans"
