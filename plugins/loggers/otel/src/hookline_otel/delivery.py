"""Sends data to a collector, more than once if need be, and says whether it arrived."""

import threading
import time
from collections.abc import Callable

from hookline_otel.outage_log import OutageLog
from hookline_otel.transport import Transport
from hookline_registry import Failure, isolate

EXPORT_SECONDS = 5.0
"""Of one sending, with all its tries; a thread that hangs is back after so long."""

FIRST_PAUSE_SECONDS = 1.0
"""Between the first two tries; twice as long before each further one."""

_LEAST_TIMEOUT_SECONDS = 0.1


class Delivery:
    """One transport; raises nothing, whatever the transport does."""

    def __init__(self, transport: Transport, outage: OutageLog) -> None:
        """Takes over the transport.

        Args:
            transport: Ends with `shutdown`.
            outage: Is told of failures.
        """
        self._transport = transport
        self._outage = outage
        self._is_ending = threading.Event()

    def send(self, make: Callable[[], bytes]) -> str | None:
        """Makes the data and sends it; returns why it failed, None if it did not."""
        body = isolate(make)
        why = body.summary if isinstance(body, Failure) else self._send(body)
        if why is None:
            self._outage.arrived()
        return why

    def tell_lost(self, why: str, lost: str) -> None:
        self._outage.failed(why, lost)

    def shutdown(self) -> None:
        """Makes `send` give up, now and for good; returns at once."""
        self._is_ending.set()
        self._transport.close()

    def _send(self, body: bytes) -> str | None:
        deadline = time.monotonic() + EXPORT_SECONDS
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
