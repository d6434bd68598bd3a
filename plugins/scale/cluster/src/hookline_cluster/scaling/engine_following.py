"""Adds and removes a front end's engines as the process that owns them tells it to."""

from collections.abc import Callable

from hookline.clock import NANOSECONDS, Clock
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_cluster.balancing.router import BalancedRouter
from hookline_cluster.capabilities import EngineAttachments
from hookline_cluster.news import (
    EngineAvailable,
    EngineDraining,
    EngineJoined,
    EngineLeft,
    EngineNotJoined,
    EngineNumberNews,
    SecondaryClientLeft,
)
from hookline_cluster.scaling.engine_leaving import LEFT, forget_engine
from hookline_server.engine_number import ScalingState

SETTLE_SECONDS = 0.5
"""Time without requests after which a front end leaves an engine.

By then the loggers know of the last ones, even if the process of this front end is
killed.
"""

EndEngine = Callable[[EngineState, str], None]


class EngineFollowing:
    """Follows the owner of a front end's engines; for the front end's thread.

    An engine that the owner wants to end gets no more requests. Once those that it has
    have ended, the front end leaves it for good, and the owner learns that. The last
    engine is not left: another one is on its way.

    Attributes:
        changed: Called after each change; replaced by whoever waits for one.
    """

    def __init__(
        self,
        engines: EngineSet,
        router: BalancedRouter,
        calls: PendingCalls,
        clock: Clock,
        *,
        visits: EngineAttachments,
        end: EndEngine,
    ) -> None:
        """Begins with the engines that are there.

        Args:
            engines: The engines.
            router: Chooses among them.
            calls: Open calls to them.
            clock: The front end's clock.
            visits: Leaves them and comes back.
            end: Ends the requests of an engine that has ended, for a reason.
        """
        self.changed: Callable[[], None] = lambda: None
        self._engines = engines
        self._router = router
        self._calls = calls
        self._clock = clock
        self._visits = visits
        self._end = end
        self._wishes: dict[int, int] = {}
        self._idle_since: dict[int, int] = {}

    @property
    def state(self) -> ScalingState:
        """The engines by what they do, as far as it is known here."""
        live = self._engines.live
        serving = tuple(each.index for each in live if not each.is_surplus)
        leaving = tuple(each.index for each in live if each.is_surplus)
        return ScalingState(serving, (), leaving)

    def on_news(self, news: EngineNumberNews) -> None:
        """Handles a message of the owner about one of its engines."""
        index = news.engine_index
        match news:
            case EngineJoined():
                self._take_joined(news)
            case EngineLeft():
                self._take_left(index)
            case EngineDraining(number=number):
                self._wishes[index] = number
            case EngineAvailable():
                self._take_offer(index)
            case EngineNotJoined() | SecondaryClientEnded() | SecondaryClientLeft():
                return  # for the owner
        if (engine := self._engines.get(index)) is not None:
            engine.is_surplus = engine.is_leaving = index in self._wishes
        self.changed()

    def look(self) -> None:
        """Leaves engines that are not wanted and have nothing to do any more."""
        for index, number in list(self._wishes.items()):
            engine = self._engines.get(index)
            if engine is not None and self._may_leave(engine):
                self._leave(engine, number)

    def _take_joined(self, joined: EngineJoined) -> None:
        known = self._engines.get(joined.engine_index)
        if known is None or known.failure is not None:
            engine = self._engines.add(joined.engine_index, joined.info)
            self._router.joined(engine)

    def _take_offer(self, index: int) -> None:
        self._wishes.pop(index, None)
        self._idle_since.pop(index, None)
        if self._engines.get(index) is None:
            self._visits.come_back(index)

    def _take_left(self, index: int) -> None:
        self._wishes.pop(index, None)
        if (engine := self._engines.get(index)) is None:
            return
        self._end(engine, LEFT)
        self._remove(index)

    def _may_leave(self, engine: EngineState) -> bool:
        others = [each for each in self._engines.live if not each.is_surplus]
        if not others or engine.death is not None:
            return False
        if engine.accounting.num_in_flight or self._calls.has_open(engine.index):
            self._idle_since.pop(engine.index, None)
            return False
        now = self._clock.now()
        since = self._idle_since.setdefault(engine.index, now)
        return now - since >= SETTLE_SECONDS * NANOSECONDS

    def _leave(self, engine: EngineState, number: int) -> None:
        del self._wishes[engine.index]
        if engine.failure is None:
            self._visits.leave(engine.index, number)
        self._remove(engine.index)
        self.changed()

    def _remove(self, index: int) -> None:
        self._idle_since.pop(index, None)
        forget_engine(index, self._engines, self._router, self._calls)
