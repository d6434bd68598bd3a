"""Places requests on engines: those that work, and among them the balancer's choice."""

from collections import Counter
from collections.abc import Sequence

from hookline.config import LoadBalancing
from hookline.core.commands import ResetPrefixCache, Sleep
from hookline.events import StepOutput
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    RequestError,
)
from hookline.front_end_parts import PlacementStats
from hookline.frontend.balancing.balancer import Choice, Reason
from hookline.frontend.balancing.making import make_balancer
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.input_processor import PreparedRequest
from hookline.transport.engine_client import EngineDied, EngineReplaced, Received


class Placement:
    """Chooses an engine for each request and reports cache changes to the balancer.

    For one thread.
    """

    def __init__(self, engines: EngineSet, balancing: LoadBalancing) -> None:
        self._engines = engines
        facts = {each.index: each.facts for each in engines}
        self._balancer = make_balancer(balancing, facts)
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def stats(self) -> PlacementStats:
        """How many requests each engine got, by reason."""
        return PlacementStats(
            requests=tuple(
                (engine, reason, count)
                for (engine, reason), count in sorted(self._counts.items())
            )
        )

    def place(self, prepared: PreparedRequest, to: int | None = None) -> EngineState:
        """Returns the engine that gets a request, which is `to` if that is given.

        Raises:
            RequestError: No engine has the index `to`.
            EngineDeadError: All engines are dead, or `to` is.
            EngineRestartingError: All that are left are being replaced, or `to` is.
        """
        choice = self._choose(prepared) if to is None else self._named(prepared, to)
        return self._chosen(choice.engine_index, choice.reason)

    def move(
        self, prepared: PreparedRequest, among: Sequence[EngineState]
    ) -> EngineState:
        """Returns the one of these engines that gets a request whose own one ended."""
        choice = self._one_of(among, prepared)
        return self._chosen(choice.engine_index, Reason.MOVED)

    @property
    def working(self) -> list[EngineState]:
        """The engines that run, have not stalled, are awake and stay."""
        return [each for each in self._engines.running if not any(_ailing(each))]

    def take(self, received: Received) -> None:
        """Takes note of what engines have cached."""
        if isinstance(received, StepOutput):
            if received.cache_changes is not None:
                index, changes = received.engine_index, received.cache_changes
                self._balancer.cache_changed(index, changes)
        elif isinstance(received, EngineDied | EngineReplaced):
            self._balancer.cache_lost(received.engine_index)

    def joined(self, engine: EngineState) -> None:
        """Takes note of a new engine."""
        self._balancer.joined(engine.index, engine.facts)

    def left(self, engine_index: int) -> None:
        """Takes note that an engine has ended and is forgotten."""
        self._balancer.left(engine_index)

    def called(self, command: object) -> None:
        """Takes note of a command that all engines get."""
        if isinstance(command, ResetPrefixCache | Sleep):
            for engine in self._engines:
                self._balancer.cache_lost(engine.index)

    def _named(self, prepared: PreparedRequest, index: int) -> Choice:
        indices = [each.index for each in self._engines]
        if index not in indices:
            raise RequestError(
                f"there is no engine {index}: the data-parallel rank must be "
                f"{_shown(indices)}",
                param="data_parallel_rank",
            )
        engine = self._engines[index]
        if engine.failure is not None:
            raise EngineDeadError(engine.failure)
        if engine.death is not None:
            raise EngineRestartingError(engine.death.reason)
        if engine.is_surplus:
            raise EngineDeadError("it is removed, because fewer engines are wanted")
        self._balancer.sent(index, prepared)
        return Choice(index, Reason.NAMED)

    def _chosen(self, index: int, reason: Reason) -> EngineState:
        self._counts[str(index), reason.value] += 1
        return self._engines[index]

    def _choose(self, prepared: PreparedRequest) -> Choice:
        """Chooses among engines that work, are awake and stay, if there are any."""
        running = self._engines.staying
        if not running:
            if (death := self._engines.death) is not None:
                raise EngineRestartingError(death.reason)
            raise EngineDeadError(self._engines.failure or "no engine is left")
        ailing = [_ailing(each) for each in running]
        least = min(ailing)
        able = [each for each, its in zip(running, ailing, strict=True) if its == least]
        return self._one_of(able, prepared)

    def _one_of(self, able: Sequence[EngineState], prepared: PreparedRequest) -> Choice:
        if len(able) > 1:
            return self._balancer.choose(able, prepared)
        self._balancer.sent(able[0].index, prepared)
        return Choice(able[0].index, Reason.ONLY)


def _shown(indices: Sequence[int]) -> str:
    first, last = indices[0], indices[-1]
    if len(indices) == last - first + 1:
        return f"{first} to {last}"
    return "one of " + ", ".join(map(str, indices))


def _ailing(engine: EngineState) -> tuple[bool, bool, bool]:
    return engine.stall is not None, engine.is_leaving, engine.is_asleep
