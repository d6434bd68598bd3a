"""Sends each request to the engine that there is."""

from collections import Counter

from hookline.events import CacheChanges
from hookline.exceptions import EngineDeadError, EngineRestartingError, RequestError
from hookline.front_end_parts import PlacementStats
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.request import GenerateRequest

NAMED, ONLY = "named", "only"
"""Why an engine got a request: it was named, or was the only one to be chosen."""


class EngineRouter:
    """Chooses the first engine; for one thread.

    An extension of the front end that has several engines puts another one in its
    place.
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
        del request
        engine = self._engines.first
        if to is None:
            return self._chosen(check_running(engine), ONLY)
        if to != engine.index:
            raise no_such_engine(to, f"{engine.index} to {engine.index}")
        return self._chosen(check_running(engine), NAMED)

    def cache_changed(self, engine_index: int, changes: CacheChanges) -> None:
        """Takes note of changes of an engine's prefix cache, if engines report them."""

    def cache_lost(self, engine_index: int) -> None:
        """Takes note that an engine has nothing cached any more."""

    def _chosen(self, engine: EngineState, reason: str) -> EngineState:
        self._counts[str(engine.index), reason] += 1
        return engine


def check_running(engine: EngineState) -> EngineState:
    """Returns an engine whose process runs.

    Raises:
        EngineDeadError: It is dead.
        EngineRestartingError: Its process is being replaced.
    """
    if engine.failure is not None:
        raise EngineDeadError(engine.failure)
    if engine.death is not None:
        raise EngineRestartingError(engine.death.reason)
    return engine


def no_such_engine(index: int, known: str) -> RequestError:
    """Returns the error of a request that names an engine which does not exist."""
    return RequestError(
        f"there is no engine {index}: the data-parallel rank must be {known}",
        param="data_parallel_rank",
    )
