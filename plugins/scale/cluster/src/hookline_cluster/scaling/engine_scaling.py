"""Adds engines to those of a front end, and lets others finish and end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from hookline.clock import NANOSECONDS, Clock
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.observing import Observing
from hookline.payloads import REMOVED
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_cluster.balancing.router import BalancedRouter
from hookline_cluster.capabilities import ElasticEngines
from hookline_cluster.news import (
    EngineJoined,
    EngineLeft,
    EngineNotJoined,
    EngineNumberNews,
    SecondaryClientLeft,
)
from hookline_cluster.scaling.engine_leaving import LEFT, forget_engine
from hookline_server.engine_number import MOST_ENGINES, ScalingState

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ScalingCounts:
    """What has happened since the start.

    Attributes:
        added: Engines that joined.
        removed: Engines that left.
        failed: Engines that could not be started.
        start_seconds: Time that those that joined took to start, in sum.
        last_start_seconds: The same of the last one; None before the first.
    """

    added: int = 0
    removed: int = 0
    failed: int = 0
    start_seconds: float = 0.0
    last_start_seconds: float | None = None


class EngineScaling:
    """Brings the engines to a number; for the front end's thread.

    An engine that is to leave gets no requests, finishes those that it has, and is
    ended then, once other front ends have nothing open there, either. The highest
    indices leave, and the lowest free ones are taken. An engine that has died for good
    counts no longer, and its index is free.

    Attributes:
        counts: What has happened.
        failure: Why the last engine that was added could not be started; None once
            another one has been.
        changed: Called after each change; replaced by whoever waits for one.
    """

    def __init__(
        self,
        engines: EngineSet,
        router: BalancedRouter,
        calls: PendingCalls,
        observers: Observing,
        clock: Clock,
    ) -> None:
        self.counts = ScalingCounts()
        self.failure: str | None = None
        self.changed: Callable[[], None] = lambda: None
        self._engines = engines
        self._router = router
        self._calls = calls
        self._observers = observers
        self._clock = clock
        self._starting: dict[int, int] = {}
        self._draining: set[int] = set()
        self._ending: set[int] = set()

    @property
    def state(self) -> ScalingState:
        serving = [each.index for each in self._engines.live if not each.is_surplus]
        leaving = self._draining | self._ending
        return ScalingState(
            tuple(serving), tuple(sorted(self._starting)), tuple(sorted(leaving))
        )

    def want(self, number: int) -> None:
        """Begins to bring the engines to a number, at least 1, that may stay.

        Engines that leave but have not been ended stay first, and those that start are
        given up first.
        """
        missing = number - self.state.staying
        for _ in range(missing):
            self._grow()
        for _ in range(-missing):
            self._shrink()
        self.look()
        self.changed()

    def keep(self) -> None:
        """Gives up what was begun: who leaves stays, and what starts does not come."""
        self.want(len(self.state.serving) + len(self._draining))

    def give_up_late(self, seconds: float) -> None:
        """Gives up engines that have been starting for so long."""
        now = self._clock.now()
        for index, began in list(self._starting.items()):
            if now - began > seconds * NANOSECONDS:
                self._fail_start(index, f"it was not ready within {seconds:g} s")
                self._remove(index)
                self.changed()

    def look(self) -> None:
        """Ends engines that leave and have nothing to do any more."""
        for index in sorted(self._draining):
            engine = self._engines[index]
            if self._has_finished(engine):
                self._draining.discard(index)
                if engine.failure is None:
                    engine.mark_ended(LEFT)
                self._remove(index)
                self.changed()

    def on_news(self, news: EngineNumberNews) -> None:
        """Takes the news of engines that join or leave, and of who uses them."""
        index = news.engine_index
        match news:
            case EngineJoined() if index in self._starting:
                self._take_joined(news)
            case EngineNotJoined(reason=reason) if index in self._starting:
                self._fail_start(index, reason)
            case EngineLeft() if index in self._ending:
                self._take_left(index)
            case SecondaryClientLeft() | SecondaryClientEnded():
                self._take_client(news)
                return  # which changes nothing yet
            case _:
                return  # it was given up meanwhile
        self.changed()

    def _take_client(self, news: SecondaryClientLeft | SecondaryClientEnded) -> None:
        """Takes note that another front end has left an engine, maybe by force."""
        if isinstance(news, SecondaryClientEnded):
            self._observers.front_end_ended(news)
        if (elastic := self._engines.client.capability(ElasticEngines)) is not None:
            number = news.number if isinstance(news, SecondaryClientLeft) else None
            elastic.client_left(news.engine_index, news.client, number)

    @property
    def _elastic(self) -> ElasticEngines:
        elastic = self._engines.client.capability(ElasticEngines)
        assert elastic is not None, "the number of engines is fixed"
        return elastic

    def _grow(self) -> None:
        if self._draining:
            index = min(self._draining)
            self._draining.discard(index)
            self._mark(self._engines[index], is_surplus=False)
            self._elastic.keep(index)
            _log.info("engine %d stays", index)
            return
        index = self._free_index()
        self._starting[index] = self._clock.now()
        _log.info("engine %d is being started", index)
        self._elastic.add(index, self._engines.first.facts.model.num_kv_blocks)

    def _shrink(self) -> None:
        if self._starting:
            index = max(self._starting)
            del self._starting[index]
            _log.info("engine %d is stopped while it starts", index)
            self._remove(index)
            return
        engine = self._engines[self.state.serving[-1]]
        self._mark(engine, is_surplus=True)
        self._draining.add(engine.index)
        self._elastic.drain_engine(engine.index)
        _log.info(
            "engine %d will stop once its %d requests have ended",
            engine.index,
            max(engine.accounting.num_in_flight, engine.num_reported),
        )

    @staticmethod
    def _mark(engine: EngineState, *, is_surplus: bool) -> None:
        engine.is_surplus = engine.is_leaving = is_surplus

    def _remove(self, index: int) -> None:
        self._ending.add(index)
        self._elastic.remove(index)

    def _fail_start(self, index: int, reason: str) -> None:
        del self._starting[index]
        self.counts.failed += 1
        self.failure = reason
        _log.error("engine %d cannot be started: %s", index, reason)

    def _free_index(self) -> int:
        live = {each.index for each in self._engines.live}
        taken = live | self._starting.keys() | self._draining | self._ending
        return next(index for index in range(2 * MOST_ENGINES) if index not in taken)

    def _has_finished(self, engine: EngineState) -> bool:
        """Whether an engine can be ended, or has ended, with no loss."""
        if engine.failure is not None:
            return True
        is_idle = not (
            engine.accounting.num_in_flight
            or engine.num_reported
            or engine.stats.kv_blocks_used
        )
        is_ours = self._elastic.is_drained(engine.index)
        return is_idle and is_ours and not self._calls.has_open(engine.index)

    def _take_joined(self, joined: EngineJoined) -> None:
        index, (facts, clock) = joined.engine_index, joined.info
        seconds = (self._clock.now() - self._starting.pop(index)) / NANOSECONDS
        self._router.joined(self._engines.add(index, joined.info))
        self._observers.started(facts, clock)
        self.failure = None
        self.counts.added += 1
        self.counts.start_seconds += seconds
        self.counts.last_start_seconds = seconds
        _log.info("engine %d serves; it took %.1f s to start", index, seconds)

    def _take_left(self, index: int) -> None:
        self._ending.discard(index)
        engine = self._engines.get(index)
        if engine is None or not engine.is_surplus:
            return  # it had not joined
        forget_engine(index, self._engines, self._router, self._calls)
        self._observers.stopped(index, REMOVED)
        self.counts.removed += 1
        _log.info("engine %d has left", index)
