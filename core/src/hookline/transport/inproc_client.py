"""Engines in this process: the caller of `receive` drives them."""

import queue
from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from hookline.engine.commands import Command, EngineMessage
from hookline.engine_setup.building import DrivenEngine
from hookline.engine_setup.failure import log_failure
from hookline.exceptions import EngineDeadError
from hookline.transport.engine_client import EngineDied, EngineInfo, Received
from hookline_registry.isolation import Failure, isolate

T = TypeVar("T")
_CLOSED = "it was closed"
_TURN_SECONDS = 0.01
"""Maximum wait of an idle engine for commands while others may have work."""


@dataclass(slots=True)
class EngineTurn:
    """An engine and the commands that wait for it."""

    loop: DrivenEngine
    commands: queue.SimpleQueue[Command] = field(default_factory=queue.SimpleQueue)
    death: str | None = None

    def fail(self, error: BaseException) -> None:
        """Dies of an error; raises it if it ends the process as well."""
        if not isinstance(error, Exception):
            raise error
        self.death = log_failure(error)

    def next_command(self, timeout_seconds: float) -> Command | None:
        try:
            if timeout_seconds > 0:
                return self.commands.get(timeout=timeout_seconds)
            return self.commands.get_nowait()
        except queue.Empty:
            return None


class InprocClient:
    """An `EngineClient` whose engines run in the thread that receives, in turns."""

    owns_engines, dropped = True, 0

    def __init__(self, *loops: DrivenEngine, client_index: int = 0) -> None:
        self.index = client_index
        self._driven = {loop.facts.engine_index: EngineTurn(loop) for loop in loops}
        self.engines = {
            index: EngineInfo(each.loop.facts, each.loop.clock_pair())
            for index, each in self._driven.items()
        }
        self._turns = deque(self._driven)
        self._messages: deque[EngineMessage] = deque()
        self._is_closed = False

    def capability(self, kind: type[T]) -> T | None:
        del kind
        return None

    def send(self, engine_index: int, command: Command) -> None:
        driven = self._driven[engine_index]
        if driven.death is not None:
            raise EngineDeadError(driven.death)
        driven.commands.put(command)

    def receive(self, timeout_seconds: float) -> Received | None:
        if self._messages:
            return self._messages.popleft()
        if not self._turns:
            raise EngineDeadError(next(iter(self._driven.values())).death or _CLOSED)
        for _ in range(len(self._turns)):
            index = self._turns[0]
            self._turns.rotate(-1)
            driven = self._driven[index]
            wait = timeout_seconds
            if len(self._turns) > 1:
                wait = self._patience(index, timeout_seconds)
            found = isolate(driven.loop.run_once, driven.next_command, wait)
            if isinstance(found, Failure):
                driven.fail(found.error)
            else:
                self._messages.extend(found)
            if driven.death is not None:
                self._turns.remove(index)
                return EngineDied(index, driven.death)
            if self._messages:
                return self._messages.popleft()
        return None

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._turns.clear()
        for driven in self._driven.values():
            if driven.death is None:
                driven.death = _CLOSED
                driven.loop.close()

    def _patience(self, index: int, timeout_seconds: float) -> float:
        """Returns the maximum wait of an engine; short while others may have work."""
        others = [self._driven[each].loop for each in self._turns if each != index]
        if any(loop.has_work for loop in others):
            return 0.0
        return min(timeout_seconds, _TURN_SECONDS)
