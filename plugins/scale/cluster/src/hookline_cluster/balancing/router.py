"""Places requests on engines: those that work, and among them the balancer's choice."""

from collections.abc import Sequence

from hookline.events import CacheChanges
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.router import EngineRouter
from hookline.request import GenerateRequest
from hookline_cluster.balancing.choice import Reason
from hookline_cluster.balancing.making import make_balancer
from hookline_cluster.config import LoadBalancing


class BalancedRouter(EngineRouter):
    """An `EngineRouter` that asks a balancer, and tells it of cache changes."""

    def __init__(self, engines: EngineSet, balancing: LoadBalancing) -> None:
        """Chooses among these engines by a policy."""
        super().__init__(engines)
        facts = {each.index: each.facts for each in engines}
        self._balancer = make_balancer(balancing, facts)

    @property
    def working(self) -> list[EngineState]:
        """The engines that run, have not stalled, are awake and stay."""
        return [each for each in self._engines.running if not any(ailments(each))]

    def move(
        self, request: GenerateRequest, among: Sequence[EngineState]
    ) -> EngineState:
        """Returns the one of these engines that gets a request whose own one ended."""
        engine, _ = self._one_of(among, request)
        return self._chosen(engine, Reason.MOVED.value)

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        self._balancer.cache_changed(engine_index, changes)

    def cache_lost(self, engine_index: int) -> None:
        self._balancer.cache_lost(engine_index)

    def joined(self, engine: EngineState) -> None:
        """Takes note of a new engine."""
        self._balancer.joined(engine.index, engine.facts)

    def left(self, engine_index: int) -> None:
        """Takes note that an engine has ended and is forgotten."""
        self._balancer.left(engine_index)

    def _named(self, request: GenerateRequest, index: int) -> EngineState:
        engine = super()._named(request, index)
        self._balancer.sent(index, request)
        return engine

    def _choose(self, request: GenerateRequest) -> tuple[EngineState, str]:
        """Chooses among engines that work, are awake and stay, if there are any."""
        running = self._staying()
        if len(running) == 1:
            return self._one_of(running, request)
        ailing = [ailments(each) for each in running]
        least = min(ailing)
        able = [each for each, its in zip(running, ailing, strict=True) if its == least]
        return self._one_of(able, request)

    def _one_of(
        self, able: Sequence[EngineState], request: GenerateRequest
    ) -> tuple[EngineState, str]:
        if len(able) > 1:
            choice = self._balancer.choose(able, request)
            return self._engines[choice.engine_index], choice.reason.value
        self._balancer.sent(able[0].index, request)
        return able[0], Reason.ONLY.value


def ailments(engine: EngineState) -> tuple[bool, bool, bool]:
    """Returns what speaks against an engine, the worst first."""
    return engine.stall is not None, engine.is_leaving, engine.is_asleep
