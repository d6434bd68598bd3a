"""Moves requests of an engine that has ended to engines that work."""

import logging
from collections import Counter
from collections.abc import Collection

from hookline.events import StepOutput
from hookline.frontend.client_request import ClientRequest
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.observing import Observing
from hookline.stats.iteration_stats import IterationStats
from hookline_cluster.balancing.router import BalancedRouter
from hookline_cluster.capabilities import RemoteEngines
from hookline_process_engine.supervision.supervisor import Sent, resubmit_all

_log = logging.getLogger(__name__)


class RequestMigration:
    """Decides which requests move, and moves them; for the front end's thread.

    A request that ends each engine that it reaches must not end all of them: from an
    engine that failed by itself it moves once only, and never to the last one that
    works. Which requests such an engine computed is not known: it tells of a step after
    the step.
    """

    def __init__(
        self, engines: EngineSet, router: BalancedRouter, observers: Observing
    ) -> None:
        self._engines = engines
        self._router = router
        self._observers = observers

    def leaving(self, engine: EngineState) -> list[ClientRequest]:
        """Returns the requests that leave an engine that has just ended.

        Clients have got nothing of them and have not named the engine.
        """
        if engine.failure is not None or engine.death is not None:
            return []
        if engine.facts.shares_experts:
            return []  # the others end with it
        return self._movable(engine)

    def move(self, source: EngineState, requests: Collection[ClientRequest]) -> None:
        """Sends requests of an engine that is marked as ended to other engines."""
        resubmit_all(self._engines, self._passed_on(source, requests))

    def gathered(self) -> list[Sent]:
        """Assigns requests that wait for engines being replaced to those that work.

        None of them worked when their own one ended, or they would have moved then.
        """
        sent: list[Sent] = []
        for source in self._engines.live:
            if source.death is not None and not source.facts.shares_experts:
                sent += self._passed_on(source, self._movable(source))
        return sent

    def gather(self) -> None:
        """Sends them, too."""
        resubmit_all(self._engines, self.gathered())

    def _movable(self, source: EngineState) -> list[ClientRequest]:
        """Returns the requests of an engine that may move to those that work."""
        others = len(self._others(source))
        return [
            each
            for each in source.outputs.untouched
            if not each.is_named and others > int(each.is_suspect)
        ]

    def _passed_on(
        self, source: EngineState, requests: Collection[ClientRequest]
    ) -> list[Sent]:
        """Makes requests those of other engines, in all books; they are not sent."""
        if not requests:
            return []
        targets = self._targets(source)
        taken: Counter[EngineState] = Counter()
        begun: list[Sent] = []
        for request in requests:
            source.outputs.detach(request)
            target = self._router.move(request.inner, targets)
            request.engine_index = target.index
            completions = target.outputs.take_over(request)
            taken[target] += len(completions)
            begun += [(target, each) for each in completions]
        self._tell(source, IterationStats(moved=taken.total()))
        for target, count in taken.items():
            self._tell(target, IterationStats(migrated_in=count))
        shown = ", ".join(f"{count} to {each.index}" for each, count in taken.items())
        _log.warning("requests of engine %d move: %s", source.index, shown)
        return begun

    def _others(self, engine: EngineState) -> list[EngineState]:
        return [each for each in self._router.working if each is not engine]

    def _targets(self, source: EngineState) -> list[EngineState]:
        """Returns where requests may go: to other machines, if there are any.

        A machine that is lost loses all its engines, and tells of one after the other.
        """
        others = self._others(source)
        remote = self._engines.client.capability(RemoteEngines)
        hosts = {} if remote is None else remote.hosts
        if (host := hosts.get(source.index)) is None:
            return others
        elsewhere = [each for each in others if hosts.get(each.index) != host]
        return elsewhere or others

    def _tell(self, engine: EngineState, iteration: IterationStats) -> None:
        output = StepOutput(engine.index, engine.stats_at, "moved", engine.stats)
        self._observers.observe(output, iteration, {})
