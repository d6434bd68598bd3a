"""Starts actors, watches them and ends them; in the Ray driver process."""

import logging
import time
from collections.abc import Iterator

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from hookline_ray.messages import Ended, Open, Start, StartRank, Stop
from hookline_ray.placement import Placement
from hookline_ray.process_actor import ProcessActor, Program
from hookline_ray.programs import engine_program, rank_program

_PENDING_SECONDS = 5.0
"""Time after which the log says why an actor is not there yet."""
_log = logging.getLogger("hookline_ray.driver")


class _Member:
    """The actor of an engine or a rank."""

    def __init__(
        self, start: Start | StartRank, actor: ActorHandle[ProcessActor]
    ) -> None:
        self.start = start
        self.actor = actor
        self.is_running = False
        self.began = time.monotonic()
        self.watched: ray.ObjectRef[str] = actor.address.remote()

    @property
    def launch(self) -> int:
        return self.start.launch if isinstance(self.start, Start) else 0


class Driver:
    """The actors of a server's engines, or of an engine's ranks; for one thread."""

    def __init__(self, opening: Open, folder: str) -> None:
        """Asks for their places.

        Args:
            opening: What they are.
            folder: Their working directory; empty for that of Ray's workers.
        """
        self._folder = folder
        self._placement = Placement(opening.kind, opening.indices, opening.cpus)
        self._deadline_seconds = opening.deadline_seconds
        self._members: dict[int, _Member] = {}
        self._has_warned = False

    def carry_out(self, command: Start | StartRank | Stop) -> None:
        """Begins to start an actor, or ends one; does not wait."""
        if isinstance(command, Start):
            self._start(command.config.engine_index, command)
        elif isinstance(command, StartRank):
            self._start(command.enlisted.rank, command)
        else:
            self._stop(command.engine_index)
            if command.gives_back:
                self._placement.give_back(command.engine_index)

    def look(self, timeout_seconds: float) -> Iterator[Ended]:
        """Waits for a change of an actor, and yields those that have ended."""
        watched = {each.watched: index for index, each in self._members.items()}
        if not watched:
            time.sleep(timeout_seconds)
            return
        ready, _ = ray.wait(list(watched), timeout=timeout_seconds, fetch_local=False)
        for each in ready:
            yield from self._take(watched[each])
        yield from self._find_late()

    def close(self) -> None:
        """Ends all actors and gives their places back."""
        for index in list(self._members):
            self._stop(index)
        self._placement.close()

    def _start(self, index: int, start: Start | StartRank) -> None:
        self._stop(index)
        self._members[index] = _Member(start, self._placement.make_actor(index))

    def _stop(self, index: int) -> None:
        if (member := self._members.pop(index, None)) is not None:
            ray.kill(member.actor)

    def _take(self, index: int) -> Iterator[Ended]:
        member = self._members[index]
        try:
            result = ray.get(member.watched)
        except RayError as error:
            yield self._ended(index, f"its Ray actor has ended: {_first_line(error)}")
            return
        if member.is_running:
            yield self._ended(index, result)
            return
        level = logging.getLogger("hookline").getEffectiveLevel()
        program = self._program(index, member, result)._replace(folder=self._folder)
        member.is_running = True
        member.watched = member.actor.run.remote(program, level)

    def _program(self, index: int, member: _Member, address: str) -> Program:
        beside = self._placement.num_beside(index)
        if isinstance(member.start, Start):
            return engine_program(member.start, beside)
        return rank_program(member.start, beside, address)

    def _find_late(self) -> Iterator[Ended]:
        now = time.monotonic()
        for index, member in list(self._members.items()):
            waited = 0.0 if member.is_running else now - member.began
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
        launch = self._members[index].launch
        self._stop(index)
        return Ended(index, launch, reason)


def _first_line(error: RayError) -> str:
    return str(error).partition("\n")[0]
