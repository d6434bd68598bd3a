"""Pushes all metrics once an interval."""

import threading
from collections.abc import Callable

from hookline_otel.delivery import Delivery
from hookline_otel.export_thread import ExportThread


class MetricSender:
    """Sums are cumulative, so a push that fails loses time and no number."""

    def __init__(
        self,
        delivery: Delivery,
        encode: Callable[[int], bytes],
        *,
        interval_seconds: float,
    ) -> None:
        """Starts nothing yet.

        Args:
            delivery: Ends with the sender.
            encode: Makes what is sent, given how many pushes have failed.
            interval_seconds: Between two pushes.
        """
        self._delivery = delivery
        self._encode = encode
        self._interval_seconds = interval_seconds
        self._lock = threading.Lock()
        self._failed = 0
        self.thread = ExportThread("metrics", self._work, delivery.shutdown)

    @property
    def failed(self) -> int:
        """Pushes that did not arrive."""
        with self._lock:
            return self._failed

    def close(self, timeout_seconds: float) -> None:
        """Waits so long for the last push."""
        self.thread.end()
        self.thread.wait(timeout_seconds)
        self.thread.interrupt()

    def _work(self) -> float:
        if (why := self._delivery.send(lambda: self._encode(self.failed))) is not None:
            with self._lock:
                self._failed += 1
            self._delivery.tell_lost(why, f"{self.failed} pushes")
        return self._interval_seconds
