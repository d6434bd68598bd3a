"""Chooses the engine of each request."""

from collections import Counter
from collections.abc import Sequence

from hookline.events import CacheChanges
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    RequestError,
)
from hookline.front_end_parts import PlacementStats
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.request import GenerateRequest

NAMED, ONLY = "named", "only"
"""Why an engine got a request: it was named, or was the only one to be chosen."""


class EngineRouter:
    """Sends requests to the engine that there is, or to one that they name.

    For one thread. An extension of the front end that has several engines puts another
    one in its place.
    """

    def __init__(self, engines: EngineSet) -> None:
        """Chooses among these engines."""
        self._engines = engines
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
        if to is None:
            engine, reason = self._choose(request)
        else:
            engine, reason = self._named(request, to), NAMED
        return self._chosen(engine, reason)

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        """Takes note of changes of an engine's prefix cache, if engines report them."""

    def cache_lost(self, engine_index: int) -> None:
        """Takes note that an engine has nothing cached any more."""

    def _named(self, request: GenerateRequest, index: int) -> EngineState:
        del request
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
        return engine

    def _choose(self, request: GenerateRequest) -> tuple[EngineState, str]:
        """Returns an engine, and why it gets the request."""
        del request
        return self._staying()[0], ONLY

    def _staying(self) -> Sequence[EngineState]:
        """Returns the engines that run and stay, at least one."""
        if not (running := self._engines.staying):
            if (death := self._engines.death) is not None:
                raise EngineRestartingError(death.reason)
            raise EngineDeadError(self._engines.failure or "no engine is left")
        return running

    def _chosen(self, engine: EngineState, reason: str) -> EngineState:
        self._counts[str(engine.index), reason] += 1
        return engine


def _shown(indices: Sequence[int]) -> str:
    first, last = indices[0], indices[-1]
    if len(indices) == last - first + 1:
        return f"{first} to {last}"
    return "one of " + ", ".join(map(str, indices))
