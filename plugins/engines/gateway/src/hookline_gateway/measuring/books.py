"""The accounts of all upstreams, and what of them the loggers are told when."""

import asyncio
from collections.abc import Mapping, Sequence
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
        self.of(instance).looked()

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
        for engine in self._engines.values():
            if engine.has_news:
                engine.tell()

    def close(self) -> None:
        """Tells the last news."""
        self.report_changes()
        for engine in self._engines.values():
            engine.stopped()
