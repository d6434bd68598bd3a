"""Moves requests of an engine that has ended to engines that work."""

import logging
from collections import Counter
from collections.abc import Collection

from hookline.events import StepOutput
from hookline.frontend.client_request import ClientRequest, CompletionState
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.observing import Observing
from hookline.stats.iteration_stats import IterationStats
from hookline.transport.engine_client import DeathKind, EngineDied
from hookline_cluster.balancing.router import BalancedRouter
from hookline_cluster.capabilities import RemoteEngines
from hookline_process_engine.supervision.supervisor import resubmit

_OWN_FAULTS = (DeathKind.FAILED, DeathKind.CRASHED, DeathKind.STALLED)
"""Ends that a request may have caused, and may cause again at another engine."""

_log = logging.getLogger(__name__)


class RequestMigration:
    """Decides which requests move, and moves them; for the front end's thread.

    A request that ends each engine that it reaches must not end all of them: it moves
    once only, and never from an engine that failed by itself to the last one that
    works. Which requests such an engine computed is not known: it tells of a step after
    the step.
    """

    def __init__(
        self, engines: EngineSet, router: BalancedRouter, observers: Observing
    ) -> None:
        self._engines = engines
        self._router = router
        self._observers = observers

    def leaving(self, engine: EngineState, death: EngineDied) -> list[ClientRequest]:
        """Returns the requests that leave an engine that has just ended.

        Clients have got nothing of them and have not named the engine.
        """
        if engine.failure is not None or engine.death is not None:
            return []
        if engine.facts.shares_experts:
            return []  # the others end with it
        if len(self._others(engine)) <= int(death.kind in _OWN_FAULTS):
            return []
        return [each for each in engine.outputs.untouched if not each.is_named]

    def move(self, source: EngineState, requests: Collection[ClientRequest]) -> None:
        """Sends requests of an engine that is marked as ended to other engines."""
        if not requests:
            return
        targets = self._targets(source)
        taken: Counter[EngineState] = Counter()
        begun: list[tuple[EngineState, CompletionState]] = []
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
        for target, completion in begun:
            resubmit(self._engines, target, completion)

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
