"""One line now and then while a collector does not take what it is sent."""

import logging

from hookline.clock import NANOSECONDS, Clock
from hookline_otel.endpoint import Endpoint, Signal

WARN_SECONDS = 60

_LOGGER = logging.getLogger("hookline_otel")


class OutageLog:
    """Warns at the first failure, and again at most once in `WARN_SECONDS`."""

    def __init__(self, signal: Signal, endpoint: Endpoint, clock: Clock) -> None:
        self._signal = signal
        self._endpoint = endpoint
        self._clock = clock
        self._warned_at: int | None = None
        self._is_out = False

    def failed(self, detail: str, lost: str) -> None:
        """Something did not arrive.

        Args:
            detail: Why.
            lost: What is lost so far.
        """
        self._is_out = True
        now = self._clock.now()
        last = self._warned_at
        if last is not None and now - last < WARN_SECONDS * NANOSECONDS:
            return
        self._warned_at = now
        _LOGGER.warning(
            "cannot send %s to %s (%s): %s; lost so far: %s",
            self._signal,
            self._endpoint.host,
            self._endpoint.protocol,
            detail,
            lost,
        )

    def arrived(self) -> None:
        """Something arrived."""
        if self._is_out:
            self._is_out = False
            _LOGGER.info("%s arrive at %s again", self._signal, self._endpoint.host)
