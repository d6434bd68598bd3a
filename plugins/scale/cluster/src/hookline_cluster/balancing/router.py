"""Places requests on engines: those that work, and among them the balancer's choice."""

from collections.abc import Sequence

from hookline.events import CacheChanges
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.router import Choice, EngineRouter, Reason, ailments
from hookline.request import GenerateRequest
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
        choice = self._one_of(among, request)
        return self._chosen(choice._replace(reason=Reason.MOVED))

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

    def _sent(self, engine_index: int, request: GenerateRequest) -> None:
        self._balancer.sent(engine_index, request)

    def _one_of_several(
        self, able: Sequence[EngineState], request: GenerateRequest
    ) -> Choice:
        return self._balancer.choose(able, request)
