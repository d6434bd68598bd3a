"""Rate-limited warnings while a collector cannot be reached."""

import logging

from hookline.clock import NANOSECONDS, Clock
from hookline_otel.endpoint import Endpoint, Signal

WARN_SECONDS = 60

_LOGGER = logging.getLogger("hookline_otel")


class OutageLog:
    """Warns at the first failure, then at most once per `WARN_SECONDS`."""

    def __init__(self, signal: Signal, endpoint: Endpoint | None, clock: Clock) -> None:
        """Logs about a signal; without an endpoint it is not sent by OTLP."""
        self._signal = signal
        self._place = "the exporter" if endpoint is None else endpoint.host
        self._protocol = "" if endpoint is None else f" ({endpoint.protocol})"
        self._clock = clock
        self._warned_at: int | None = None
        self._is_out = False

    def failed(self, detail: str, lost: str) -> None:
        """Records a failed export, with a warning if one is due.

        Args:
            detail: Cause of the failure.
            lost: Total lost so far, such as "3 spans".
        """
        self._is_out = True
        now = self._clock.now()
        last = self._warned_at
        if last is not None and now - last < WARN_SECONDS * NANOSECONDS:
            return
        self._warned_at = now
        _LOGGER.warning(
            "cannot send %s to %s%s: %s; lost so far: %s",
            self._signal,
            self._place,
            self._protocol,
            detail,
            lost,
        )

    def arrived(self) -> None:
        """Records a successful export; logs the end of an outage."""
        if self._is_out:
            self._is_out = False
            _LOGGER.info("%s arrive at %s again", self._signal, self._place)
