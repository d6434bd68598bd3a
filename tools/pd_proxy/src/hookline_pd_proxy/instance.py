"""An instance behind the route: whether it is up, and how much it has to do."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from hookline_pd_proxy.load import Load

ERRORS_IN_A_ROW = 3
"""Answers with an error, or health checks without an answer, before it is down."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0

LOAD_LIFE_POLLS = 5
"""What an instance told so many polls ago is no longer believed."""

logger = logging.getLogger(__name__)

Clock = Callable[[], float]


class Role(StrEnum):
    """What an instance is for."""

    PREFILL = "prefill"
    DECODE = "decode"


class Instance:
    """One server; used on one event loop.

    It starts as up. One that cannot be reached is down at once, one that answers with
    errors after some in a row; a health check makes it up again, after a pause that is
    twice as long each time.

    Attributes:
        role: What it is for.
        url: Without a slash at its end.
        name: Its URL without the scheme, for people and for metrics.
        in_flight: Requests that the route has open there.
        is_up: Whether it is given requests.
        retry_at: When it is looked at again, if it is down.
        chosen_at: Counts the choices among the instances of its role.
    """

    def __init__(
        self,
        role: Role,
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
        self.retry_at = 0.0
        self.chosen_at = 0
        self._clock = clock
        self._load_life = LOAD_LIFE_POLLS * poll_seconds
        self._load: Load | None = None
        self._told_at = 0.0
        self._in_flight_then = 0
        self._errors = 0
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def requests(self) -> float:
        """Requests that it has now, as far as the route can know.

        What it told is old by up to a poll; the route's own requests that began and
        ended since are known. Others' are not.
        """
        load = self._known_load
        if load is None:
            return self.in_flight
        since = self.in_flight - self._in_flight_then
        return max(load.requests + since, self.in_flight)

    @property
    def kv_usage(self) -> float:
        """Share of its KV cache that is in use; 0 if it has not told of late."""
        load = self._known_load
        return 0.0 if load is None else load.kv_usage

    @contextmanager
    def used(self) -> Iterator[None]:
        """Counts a request while it is there."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def told(self, load: Load | None) -> None:
        """It has told how busy it is, or has no such page."""
        self._load = load
        self._told_at = self._clock()
        self._in_flight_then = self.in_flight

    def answered(self) -> None:
        """It has served a request."""
        self._errors = 0
        self._pause = FIRST_PAUSE_SECONDS

    def failed(self, why: str) -> None:
        """It has answered with an error, or a health check not at all."""
        self._errors += 1
        if self._errors >= ERRORS_IN_A_ROW:
            self.lost(why)

    def lost(self, why: str) -> None:
        """It cannot be reached, or says that it takes no requests."""
        if self.is_up:
            logger.warning("%s instance %s is down: %s", self.role, self.name, why)
        if self.is_up or self._clock() >= self.retry_at:
            self.is_up = False
            self.retry_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def recovered(self) -> None:
        """A health check went well.

        An error more, and it is down again: only a request tells that it can serve.
        """
        if not self.is_up:
            logger.info("%s instance %s is up", self.role, self.name)
            self._errors = min(self._errors, ERRORS_IN_A_ROW - 1)
            self.is_up = True

    @property
    def _known_load(self) -> Load | None:
        is_old = self._clock() - self._told_at > self._load_life
        return None if is_old else self._load
