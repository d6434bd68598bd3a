"""Chooses the engine of each request."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from hookline.events import CacheChanges
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    RequestError,
)
from hookline.front_end_parts import PlacementStats
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.turns import Turns
from hookline.request import GenerateRequest


class Reason(StrEnum):
    """Why an engine got a request.

    The client or a probe named it, it was the only one that could be chosen, it had the
    least load, it was its turn, it had cached most of the prompt, those that had cached
    more had too much load, or the request's engine had ended.
    """

    NAMED = "named"
    ONLY = "only"
    LOAD = "load"
    TURN = "turn"
    PREFIX = "prefix"
    SPILL = "spill"
    MOVED = "moved"


class Choice(NamedTuple):
    """The engine that gets a request, and why."""

    engine_index: int
    reason: Reason


class EngineRouter:
    """Chooses among engines that work: the one of least load, if there are several.

    For one thread. An extension of the front end may put another one in its place.
    """

    def __init__(self, engines: EngineSet) -> None:
        """Chooses among these engines."""
        self._engines = engines
        self._turns: Turns[int] = Turns()
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

    def place(self, request: GenerateRequest, to: int | None = None) -> EngineState:
        """Returns the engine that gets a request, which is `to` if that is given.

        Raises:
            RequestError: No engine has the index `to`.
            EngineDeadError: All engines are dead, or `to` is.
            EngineRestartingError: All that are left are being replaced, or `to` is.
        """
        choice = self._choose(request) if to is None else self._named(request, to)
        return self._chosen(choice)

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        """Takes note of changes of an engine's prefix cache, if engines report them."""

    def cache_lost(self, engine_index: int) -> None:
        """Takes note that an engine has nothing cached any more."""

    def _sent(self, engine_index: int, request: GenerateRequest) -> None:
        """Takes note of a request for which there was nothing to be chosen."""

    def _one_of_several(
        self, able: Sequence[EngineState], request: GenerateRequest
    ) -> Choice:
        """Returns the choice among two engines or more."""
        del request
        loads = {each.index: each.load for each in able}
        return Choice(self._turns.least(list(loads), loads.__getitem__), Reason.LOAD)

    def _one_of(self, able: Sequence[EngineState], request: GenerateRequest) -> Choice:
        if len(able) > 1:
            return self._one_of_several(able, request)
        self._sent(able[0].index, request)
        return Choice(able[0].index, Reason.ONLY)

    def _chosen(self, choice: Choice) -> EngineState:
        self._counts[str(choice.engine_index), choice.reason.value] += 1
        return self._engines[choice.engine_index]

    def _named(self, request: GenerateRequest, index: int) -> Choice:
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
        self._sent(index, request)
        return Choice(index, Reason.NAMED)

    def _choose(self, request: GenerateRequest) -> Choice:
        """Chooses among engines that work, are awake and stay, if there are any."""
        running = self._engines.staying
        if not running:
            if (death := self._engines.death) is not None:
                raise EngineRestartingError(death.reason)
            raise EngineDeadError(self._engines.failure or "no engine is left")
        if len(running) == 1:
            return self._one_of(running, request)
        ailing = [ailments(each) for each in running]
        least = min(ailing)
        able = [each for each, its in zip(running, ailing, strict=True) if its == least]
        return self._one_of(able, request)


def ailments(engine: EngineState) -> tuple[bool, bool, bool]:
    """Returns what speaks against an engine, the worst first."""
    return engine.stall is not None, engine.is_leaving, engine.is_asleep


def _shown(indices: Sequence[int]) -> str:
    first, last = indices[0], indices[-1]
    if len(indices) == last - first + 1:
        return f"{first} to {last}"
    return "one of " + ", ".join(map(str, indices))
