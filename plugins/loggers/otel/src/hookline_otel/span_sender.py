"""Traces that wait to be sent: bounded, counted, and sent by a thread of their own."""

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
"""Traces that wait; beyond them the oldest is dropped."""

BATCH_SPANS = 512
INTERVAL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0

SLICE_TRACES = 8
SLICE_PAUSE_SECONDS = 0.0002
"""After each slice the thread sleeps: while it writes it has the interpreter's lock,
and an engine in the same process would stand still for as long as a batch takes."""


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """What became of the spans that no longer wait.

    Attributes:
        exported: Arrived at the collector.
        failed: Could not be sent.
        dropped: Were too many, or there was no time left to send them.
    """

    exported: int = 0
    failed: int = 0
    dropped: int = 0


class SpanSender:
    """Takes traces from any thread; taking one never waits for the collector."""

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
        """Queues a trace; a full queue loses its oldest, a closed one the new one."""
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
        """Waits so long for what is being sent; what remains is dropped."""
        self.thread.end()
        self.thread.wait(timeout_seconds)
        with self._lock:
            self._is_closed = True
            remaining = sum(trace.span_count for trace in self._waiting)
            self._waiting.clear()
            self._count(dropped=remaining)
        self.thread.interrupt()  # which has it tell why, if it can
        if remaining:
            self._delivery.tell_lost("there was no time left", self._lost)

    def _work(self) -> float:
        while batch := self._take():
            if not self._send(batch):
                self._failures += 1
                return min(2.0**self._failures, MAX_PAUSE_SECONDS)
            self._failures = 0
        return INTERVAL_SECONDS

    def _take(self) -> list[bytes]:
        """Spans of the traces that have waited longest; none once nothing waits."""
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
        """The trace's spans; one that cannot be written harms no other trace."""
        spans = isolate(trace.encode)
        if not isinstance(spans, Failure):
            return spans
        with self._lock:
            self._count(failed=trace.span_count)
        self._delivery.tell_lost(spans.summary, self._lost)
        return []

    def _send(self, spans: Sequence[bytes]) -> bool:
        why = self._delivery.send(lambda: self._envelope.wrap(spans))
        with self._lock:
            if why is None:
                self._count(exported=len(spans))
            else:
                self._count(failed=len(spans))
        if why is not None:
            self._delivery.tell_lost(why, self._lost)
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
