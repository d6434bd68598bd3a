"""The engine in this process: whoever calls `receive` drives it."""

import queue
from collections.abc import Sequence

from hookline.core.commands import Add, Command, Finish, ResetPrefixCache
from hookline.core.engine_core import EngineCore
from hookline.core.engine_loop import EngineLoop
from hookline.core.failure import FailureNotice
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import FinishCause
from hookline.request import EngineRequest


class InprocClient:
    """An `EngineClient` whose core runs in the thread that receives."""

    def __init__(self, core: EngineCore, heartbeat_seconds: float) -> None:
        self.facts = core.facts
        self.clock = core.clock_pair()
        self._core = core
        self._loop = EngineLoop(core, heartbeat_seconds)
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._dead: str | None = None
        self._guard = FailureNotice(self._die)

    def add(self, request: EngineRequest) -> None:
        self._send(Add(request))

    def finish(self, request_ids: Sequence[int], cause: FinishCause) -> None:
        self._send(Finish(list(request_ids), cause))

    def reset_prefix_cache(self) -> None:
        self._send(ResetPrefixCache())

    def receive(self, timeout_seconds: float) -> StepOutput | None:
        self._check_alive()
        with self._guard:
            return self._loop.turn(self._next_command, timeout_seconds)

    def close(self) -> None:
        if self._dead is None:
            self._dead = "it was closed"
            self._core.close()

    def _send(self, command: Command) -> None:
        self._check_alive()
        self._commands.put(command)

    def _next_command(self, timeout_seconds: float) -> Command | None:
        try:
            if timeout_seconds > 0:
                return self._commands.get(timeout=timeout_seconds)
            return self._commands.get_nowait()
        except queue.Empty:
            return None

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise EngineDeadError(self._dead)

    def _die(self, reason: str) -> None:
        self._dead = reason
