"""An engine of a simulated cluster: the product's loop and core, on its own clock."""

from collections import deque
from collections.abc import Callable

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import Command, EngineMessage
from hookline.engine.engine_loop import EngineLoop
from hookline.transport.engine_client import EngineInfo
from hookline_testing.cluster.events import Events, advance
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.simulation import simulated_core

Emit = Callable[[EngineMessage, int], None]
"""Takes an engine's message, and the time at which it is sent, in ns."""


class SimulatedEngine:
    """Takes its turns while it has work, and sleeps until something arrives otherwise.

    A turn's work is done when it begins, while its messages leave when it ends; what
    arrives meanwhile waits in the inbox, as it does for a real engine.
    """

    def __init__(
        self, index: int, spec: ClusterSpec, events: Events, emit: Emit
    ) -> None:
        self.index = index
        self._events = events
        self._emit = emit
        self._heartbeat_seconds = spec.heartbeat_seconds
        self._clock = VirtualClock(events.clock.now())
        self._inbox: deque[Command] = deque()
        self._is_turning = False
        self._is_over = False
        self._awaits_heartbeat = False
        self._core = simulated_core(
            cache=CacheConfig(num_kv_blocks=spec.cache_blocks),
            scheduler=SchedulerConfig(
                max_num_seqs=spec.max_num_seqs, max_num_batched_tokens=2048
            ),
            simulation=spec.step_times,
            max_model_len=spec.max_model_len,
            clock=self._clock,
            engine_index=index,
            has_cache_events=spec.has_cache_events,
        )
        tap = None if spec.tap is None else spec.tap(self._core)
        self._loop = EngineLoop(self._core, spec.heartbeat_seconds, tap)

    @property
    def info(self) -> EngineInfo:
        """The engine as it reports itself when it is ready."""
        return EngineInfo(self._core.facts, self._core.clock_pair())

    def deliver(self, command: Command) -> None:
        """Puts a command into the inbox, which wakes an engine without work."""
        self._inbox.append(command)
        self._wake()

    def end(self) -> None:
        """Ends the engine, which has nothing to do any more."""
        assert not self._core.has_work
        self._is_over = True
        self._loop.close()

    def _wake(self) -> None:
        if not self._is_turning and not self._is_over:
            self._is_turning = True
            self._turn()

    def _turn(self) -> None:
        advance(self._clock, self._events.clock.now())
        messages = self._loop.run_once(self._next_command, 0.0)
        ended = self._clock.now()
        for message in messages:
            self._emit(message, ended)
        if messages:
            self._events.at(ended, self._turn)
        else:
            self._is_turning = False
            self._await_heartbeat()

    def _next_command(self, timeout_seconds: float) -> Command | None:
        del timeout_seconds  # what comes later wakes the engine
        return self._inbox.popleft() if self._inbox else None

    def _await_heartbeat(self) -> None:
        if not self._awaits_heartbeat:
            self._awaits_heartbeat = True
            self._events.after(self._heartbeat_seconds, self._beat)

    def _beat(self) -> None:
        self._awaits_heartbeat = False
        self._wake()
