"""Starts engines' actors, watches them and ends them; in the Ray driver process."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from hookline.config import EngineConfig
from hookline.config.machines import MachinesConfig
from hookline.transport.enlistment import Enlistment
from hookline_ray.engine_actor import EngineActor
from hookline_ray.messages import Ended, Open, Start
from hookline_ray.placement import Placement

_PENDING_SECONDS = 5.0
"""Time after which the log says why an actor is not there yet."""
_log = logging.getLogger("hookline_ray.driver")


class _Engine:
    """An engine's actor."""

    def __init__(self, start: Start, actor: ActorHandle[EngineActor]) -> None:
        self.start = start
        self.actor = actor
        self.is_running = False
        self.began = time.monotonic()
        self.watched: ray.ObjectRef[object] = actor.__ray_ready__.remote()


class Driver:
    """The actors of all engines; for one thread."""

    def __init__(self, opening: Open) -> None:
        """Asks for the places of the engines."""
        self._placement = Placement(opening.engines, opening.cpus)
        self._deadline_seconds = opening.deadline_seconds
        self._engines: dict[int, _Engine] = {}
        self._has_warned = False

    def start(self, start: Start) -> None:
        """Begins to start an engine."""
        index = start.config.engine_index
        self.stop(index)
        self._engines[index] = _Engine(start, self._placement.make_actor(index))

    def stop(self, engine_index: int) -> None:
        """Ends an engine's actor, if there is one."""
        if (engine := self._engines.pop(engine_index, None)) is not None:
            ray.kill(engine.actor)

    def give_back(self, engine_index: int) -> None:
        """Gives up the place of an engine that was added later."""
        self._placement.give_back(engine_index)

    def look(self, timeout_seconds: float) -> Iterator[Ended]:
        """Waits for a change of an actor, and yields those that have ended."""
        watched = {each.watched: index for index, each in self._engines.items()}
        if not watched:
            time.sleep(timeout_seconds)
            return
        ready, _ = ray.wait(list(watched), timeout=timeout_seconds, fetch_local=False)
        for each in ready:
            yield from self._take(watched[each])
        yield from self._find_late()

    def close(self) -> None:
        """Ends all actors and gives their places back."""
        for index in list(self._engines):
            self.stop(index)
        self._placement.close()

    def _take(self, index: int) -> Iterator[Ended]:
        engine = self._engines[index]
        try:
            result = ray.get(engine.watched)
        except RayError as error:
            yield self._ended(index, f"its Ray actor has ended: {_first_line(error)}")
            return
        if engine.is_running:
            yield self._ended(index, str(result))
            return
        self._run(engine)

    def _run(self, engine: _Engine) -> None:
        """Has an actor that is there run the engine."""
        config, secret = engine.start.config, engine.start.secret
        beside = self._placement.num_beside(config.engine_index)
        enlistment = Enlistment(_among(config, beside), secret).packed()
        level = logging.getLogger("hookline").getEffectiveLevel()
        engine.is_running = True
        engine.watched = engine.actor.run.remote(config.engine_index, enlistment, level)

    def _find_late(self) -> Iterator[Ended]:
        now = time.monotonic()
        for index, engine in list(self._engines.items()):
            waited = 0.0 if engine.is_running else now - engine.began
            if waited > self._deadline_seconds:
                shortage = self._placement.shortage()
                reason = (
                    f"no place on the Ray cluster within {waited:.0f} s: {shortage}"
                )
                yield self._ended(index, reason)
            elif waited > _PENDING_SECONDS and not self._has_warned:
                self._has_warned = True
                shortage = self._placement.shortage()
                _log.warning("waiting for a place on the Ray cluster: %s", shortage)

    def _ended(self, index: int, reason: str) -> Ended:
        launch = self._engines[index].start.launch
        self.stop(index)
        return Ended(index, launch, reason)


def _among(config: EngineConfig, engines: int) -> EngineConfig:
    """Returns the configuration of one of several engines on a node.

    They divide its memory.
    """
    most = config.parallel.data_parallel_size  # engines that were added are beyond it
    machines: MachinesConfig = replace(config.machines, size_local=min(engines, most))
    return replace(config, machines=machines)


def _first_line(error: RayError) -> str:
    return str(error).partition("\n")[0]
