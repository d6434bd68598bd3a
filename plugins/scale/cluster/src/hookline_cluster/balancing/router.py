"""Places requests on engines: those that work, and among them the balancer's choice."""

from collections.abc import Sequence

from hookline.events import CacheChanges
from hookline.exceptions import EngineDeadError, EngineRestartingError
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.router import (
    NAMED,
    EngineRouter,
    check_running,
    no_such_engine,
)
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

    def place(self, request: GenerateRequest, to: int | None = None) -> EngineState:
        if to is None:
            engine, reason = self._choose(request)
            return self._chosen(engine, reason)
        return self._chosen(self._named(request, to), NAMED)

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
        indices = [each.index for each in self._engines]
        if index not in indices:
            raise no_such_engine(index, _shown(indices))
        engine = check_running(self._engines[index])
        if engine.is_surplus:
            raise EngineDeadError("it is removed, because fewer engines are wanted")
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

    def _staying(self) -> Sequence[EngineState]:
        """Returns the engines that run and stay, at least one."""
        if not (running := self._engines.staying):
            if (death := self._engines.death) is not None:
                raise EngineRestartingError(death.reason)
            raise EngineDeadError(self._engines.failure or "no engine is left")
        return running

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


def _shown(indices: Sequence[int]) -> str:
    first, last = indices[0], indices[-1]
    if len(indices) == last - first + 1:
        return f"{first} to {last}"
    return "one of " + ", ".join(map(str, indices))
