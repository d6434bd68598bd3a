"""A thread that pushes all metrics once per interval."""

import threading
from collections.abc import Callable

from hookline_otel.delivery import Delivery
from hookline_otel.export_thread import ExportThread


class MetricSender:
    """Pushes cumulative metrics; a failed push is made good by the next one."""

    def __init__(
        self,
        delivery: Delivery,
        encode: Callable[[int], bytes],
        *,
        interval_seconds: float,
    ) -> None:
        """Creates the sender without starting its thread.

        Args:
            delivery: Shut down with the sender.
            encode: Returns the encoded metrics, given the number of failed pushes.
            interval_seconds: Seconds between two pushes.
        """
        self._delivery = delivery
        self._encode = encode
        self._interval_seconds = interval_seconds
        self._lock = threading.Lock()
        self._failed = 0
        self.thread = ExportThread("metrics", self._work, delivery.shutdown)

    @property
    def failed(self) -> int:
        """Number of pushes that failed."""
        with self._lock:
            return self._failed

    def close(self, timeout_seconds: float) -> None:
        """Waits at most `timeout_seconds` for the last push."""
        self.thread.request_stop()
        self.thread.wait(timeout_seconds)
        self.thread.interrupt()

    def _work(self) -> float:
        if (
            why := self._delivery.export(lambda: self._encode(self.failed))
        ) is not None:
            with self._lock:
                self._failed += 1
            self._delivery.report_loss(why, f"{self.failed} pushes")
        return self._interval_seconds
