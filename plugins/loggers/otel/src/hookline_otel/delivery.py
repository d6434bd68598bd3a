"""Sends data to a collector, with retries, and reports failures."""

import threading
import time
from collections.abc import Callable

from hookline_otel.outage_log import OutageLog
from hookline_otel.transport import Transport
from hookline_registry import Failure, isolate

FIRST_PAUSE_SECONDS = 1.0
"""Pause before the first retry; doubles with each further retry."""

_LEAST_TIMEOUT_SECONDS = 0.1


class Delivery:
    """Sends through one transport; never raises, whatever the transport does."""

    def __init__(
        self, transport: Transport, outage: OutageLog, export_seconds: float
    ) -> None:
        """Creates the delivery, which then owns the transport.

        Args:
            transport: Closed by `shutdown`.
            outage: Logs failures.
            export_seconds: Maximum time of one export, with its retries.
        """
        self._export_seconds = export_seconds
        self._transport = transport
        self._outage = outage
        self._is_ending = threading.Event()

    def export(self, make: Callable[[], bytes]) -> str | None:
        """Makes the data and sends it; returns the error, or None on success."""
        body = isolate(make)
        why = body.summary if isinstance(body, Failure) else self._send(body)
        if why is None:
            self._outage.arrived()
        return why

    def report_loss(self, why: str, lost: str) -> None:
        self._outage.failed(why, lost)

    def shutdown(self) -> None:
        """Makes current and future `export` calls give up; does not block."""
        self._is_ending.set()
        self._transport.close()

    def _send(self, body: bytes) -> str | None:
        deadline = time.monotonic() + self._export_seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            left = max(deadline - time.monotonic(), _LEAST_TIMEOUT_SECONDS)
            refusal = isolate(self._transport.post, body, left)
            if isinstance(refusal, Failure):
                return refusal.summary
            if refusal is None:
                return None
            wait = max(pause, refusal.pause_seconds)
            is_over = time.monotonic() + wait >= deadline
            if not refusal.is_passing or is_over or self._is_ending.wait(wait):
                return refusal.why
            pause *= 2
