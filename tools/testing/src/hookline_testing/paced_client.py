"""An engine in this process whose steps wait for the event loop, for exact repetition.

Nothing is in flight between threads when a step begins: what came before has reached
its client, and commands are handed over when their senders have nothing else to do.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine.commands import Command
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline.transport.engine_client import Received
from hookline.transport.inproc_client import InprocClient

BeforeStep = Callable[[bool], None]
"""Called in the engine's thread before each turn, with nothing in flight.

It is told whether commands have come.
"""

_TURNS = 50
"""Turns of the event loop within which an output has reached its client."""
_IDLE_SECONDS = 0.01


class PacedClient(InprocClient):
    """Lets the engine go on when all that came before has left the event loop."""

    def __init__(
        self,
        loop: EngineLoop,
        event_loop: asyncio.AbstractEventLoop,
        before_step: BeforeStep = lambda _: None,
    ) -> None:
        """Takes an engine's loop.

        Args:
            loop: The engine's loop.
            event_loop: The loop of the front end and of its client.
            before_step: Called before each turn of the engine.
        """
        super().__init__(loop)
        self._event_loop = event_loop
        self._before_step = before_step
        self._held: deque[tuple[int, Command]] = deque()

    def receive(self, timeout_seconds: float) -> Received | None:
        asyncio.run_coroutine_threadsafe(_settle(), self._event_loop).result()
        self._before_step(bool(self._held))
        while self._held:
            super().send(*self._held.popleft())
        return super().receive(min(timeout_seconds, _IDLE_SECONDS))

    def send(self, engine_index: int, command: Command) -> None:
        self._held.append((engine_index, command))


def paced_connect(
    event_loop: asyncio.AbstractEventLoop,
    before_step: BeforeStep = lambda _: None,
) -> Callable[[EngineConfig], PacedClient]:
    """Returns what connects an `AsyncEngine` to a paced engine."""

    def connect(config: EngineConfig) -> PacedClient:
        core = build_core(config, SystemClock())
        return PacedClient(build_loop(core), event_loop, before_step)

    return connect


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def core_of(client: InprocClient, engine_index: int = 0) -> EngineCore:
    """Returns the core of one of Hookline's own engines in this process."""
    loop = client._driven[engine_index].loop  # noqa: SLF001 - only tests reach into it
    assert isinstance(loop, EngineLoop)
    return loop.core
