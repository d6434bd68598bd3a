"""A server behind a proxy: whether it is up, and its load."""

import logging
import time
from collections.abc import Callable, Mapping

import msgspec

from hookline_gateway.upstreams.load import Load

ERRORS_IN_A_ROW = 3
"""Consecutive errors or unanswered health checks before an instance is down."""

LOAD_LIFE_POLLS = 5
"""Age, in polls, at which a reported load is ignored."""

logger = logging.getLogger(__name__)

Clock = Callable[[], float]


class Instance:
    """One server; used on one event loop.

    It starts as up, though nobody has seen it. It is down as soon as it cannot be
    reached, or after several consecutive errors. A health check brings it up again, and
    so does an answer to a request that was sent to it nevertheless.

    Attributes:
        role: What it is for, a word before `instance`.
        url: URL without a trailing slash.
        name: URL without the scheme, for log lines and metrics.
        in_flight: Number of the proxy's open requests at the instance.
        is_up: Whether it receives requests.
        is_seen: Whether it is up, and has answered since it was last down.
        is_unready: Whether it is down because its health check says so.
        lost_at: Time when it was last found to be down.
        max_model_len: Maximum number of tokens of a sequence; None if not known.
        models: What it tells of its models, by their names; empty if not known.
    """

    def __init__(
        self,
        role: str,
        url: str,
        *,
        poll_seconds: float = 1.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self.role = role
        self.url = url.rstrip("/")
        self.name = self.url.partition("://")[2]
        self.in_flight = 0
        self.is_up = True
        self.is_seen = self.is_unready = False
        self.lost_at = 0.0
        self.max_model_len: int | None = None
        self.models: Mapping[str, msgspec.Raw] = {}
        self._clock = clock
        self._load_life = LOAD_LIFE_POLLS * poll_seconds
        self._load: Load | None = None
        self._reported_at = 0.0
        self._in_flight_then = 0
        self._busy_seconds = 0.0
        self._changed_at = clock()
        self._errors = 0

    @property
    def requests(self) -> float:
        """Estimated number of its current requests.

        The reported number is up to a poll old; it is corrected by the proxy's own
        requests since then, but not by those of other clients.
        """
        load = self.known_load
        if load is None:
            return self.in_flight
        since = self.in_flight - self._in_flight_then
        return max(load.requests + since, self.in_flight)

    @property
    def kv_usage(self) -> float:
        """Fraction of its KV cache in use; 0 if no recent value is known."""
        load = self.known_load
        return 0.0 if load is None else load.kv_usage

    @property
    def saturation(self) -> float | None:
        """How near it is to its saturation point; None if no recent value is known."""
        load = self.known_load
        return None if load is None else load.saturation

    @property
    def busy_seconds(self) -> float:
        """Time that the proxy's requests have been there, in sum."""
        return self._busy_seconds + self.in_flight * (self._clock() - self._changed_at)

    def add_request(self) -> None:
        """Counts one more request as in flight."""
        self._change(1)

    def drop_request(self) -> None:
        """Counts one request less as in flight."""
        self._change(-1)

    def _change(self, by: int) -> None:
        now = self._clock()
        self._busy_seconds += self.in_flight * (now - self._changed_at)
        self._changed_at = now
        self.in_flight += by

    def record_load(self, load: Load | None) -> None:
        """Records the reported load, or None if it has no such page."""
        self._load = load
        if load is not None and load.max_model_len is not None:
            self.max_model_len = load.max_model_len
        self._reported_at = self._clock()
        self._in_flight_then = self.in_flight

    def answered(self) -> None:
        """Records a successful request."""
        self._errors = 0
        self._is_there()

    def failed(self, why: str) -> None:
        """Records an error, or an unanswered health check."""
        self._errors += 1
        if self._errors >= ERRORS_IN_A_ROW:
            self.lost(why)

    def lost(self, why: str, *, is_unready: bool = False) -> None:
        """Marks the instance as down: unreachable, or not accepting requests."""
        if self.is_up:
            logger.warning("%s instance %s is down: %s", self.role, self.name, why)
        self.is_up = self.is_seen = False
        self.is_unready = is_unready
        self.lost_at = self._clock()

    def recovered(self) -> None:
        """Records a successful health check.

        One more error brings it down again, until a request succeeds.
        """
        self._errors = min(self._errors, ERRORS_IN_A_ROW - 1)
        self._is_there()

    def _is_there(self) -> None:
        if not self.is_up:
            logger.info("%s instance %s is up", self.role, self.name)
        self.is_up = self.is_seen = True
        self.is_unready = False

    @property
    def known_load(self) -> Load | None:
        """The reported load; None if there is none, or it is old."""
        is_old = self._clock() - self._reported_at > self._load_life
        return None if is_old else self._load
