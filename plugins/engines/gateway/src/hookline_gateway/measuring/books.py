"""The accounts of all upstreams, and what of them the loggers are told when."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from hookline.clock import Clock, SystemClock
from hookline.config.observers import ObserverConfig
from hookline.frontend.observing import Observing
from hookline.frozen import EMPTY
from hookline.request_ids import first_id
from hookline_gateway.measuring.upstream_engine import UpstreamEngine
from hookline_gateway.upstreams.instance import Instance

TELL_SECONDS = 0.1
"""Longest time until the loggers are told of a request."""

PUT_OFF_SECONDS = 0.01
"""Time for which accounts wait, as the client's next request may have come."""

FEWEST_AT_ONCE = 8
"""Accounts that are made in one turn of the event loop, if so many wait."""

MOST_PUT_OFF = 1000
"""Number of accounts that wait at most."""


class Books:
    """Accounts for the requests of a gateway, as a front end does; on one event loop.

    Attributes:
        observers: The loggers.
        clock: Takes all times.
        config: Objectives of requests, and which of them are traced.
    """

    unconfirmed_ends: Mapping[int, int] = EMPTY

    def __init__(
        self,
        instances: Sequence[Instance],
        observers: Observing,
        config: ObserverConfig,
        clock: Clock | None = None,
    ) -> None:
        self.observers = observers
        self.config = config
        self.clock = clock or SystemClock()
        self._engines = {
            instance: UpstreamEngine(index, instance, observers, self.clock)
            for index, instance in enumerate(instances)
        }
        self._ids = count(first_id(0))
        self._telling: asyncio.TimerHandle | None = None
        self._put_off: deque[Callable[[], None]] = deque()

    def of(self, instance: Instance | None) -> UpstreamEngine:
        """Returns an upstream's account; the first one's for None."""
        if instance is None:
            return next(iter(self._engines.values()))
        return self._engines[instance]

    def new_id(self) -> int:
        """Returns the id of another request."""
        return next(self._ids)

    def looked(self, instance: Instance) -> None:
        """Tells what a poll has found."""
        self._catch_up()
        self.of(instance).looked()

    def later(self, account: Callable[[], None]) -> None:
        """Accounts for something when answers are not waiting for it, in order."""
        if len(self._put_off) >= MOST_PUT_OFF:
            self._put_off.popleft()()
        if not self._put_off:
            loop = asyncio.get_running_loop()
            loop.call_later(PUT_OFF_SECONDS, self._catch_up_in_part)
        self._put_off.append(account)

    def tell_soon(self) -> None:
        """Has the loggers told what has happened, with what happens meanwhile."""
        if self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(TELL_SECONDS, self.report_changes)

    def report_changes(self) -> None:
        """Tells the loggers at once what has happened."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._catch_up()
        for engine in self._engines.values():
            if engine.has_news:
                engine.tell()

    def close(self) -> None:
        """Tells the last news."""
        self.report_changes()
        for engine in self._engines.values():
            engine.stopped()

    def _catch_up(self) -> None:
        while self._put_off:
            self._put_off.popleft()()

    def _catch_up_in_part(self) -> None:
        # The more of them wait, the more are made, so that their number is bounded.
        most = FEWEST_AT_ONCE + len(self._put_off) // FEWEST_AT_ONCE
        try:
            for _ in range(min(most, len(self._put_off))):
                self._put_off.popleft()()
        finally:
            if self._put_off:
                asyncio.get_running_loop().call_soon(self._catch_up_in_part)
