"""The signs of life of one engine, and whether it is stalled by them."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hookline.config.supervision import SupervisionConfig
from hookline.core.commands import Add, Command, Finish
from hookline.events import StepOutput
from hookline.stats.scheduler_stats import SchedulerStats

STOPPED_SECONDS = 5.0
"""Silence after which an engine counts as stalled if its process is stopped.

Such a process computes nothing, however long its step is, so no more patience helps.
"""
FIRST_STEP_FACTOR = 10
"""The first step may compile kernels and gets this many times `step_timeout`."""


MOST_RECENT = 16
"""Number of messages kept of each direction."""


class EngineVitals:
    """Counts what one engine sends and is sent.

    Every attribute is written by one thread and read by others, without locks: the
    receiving thread writes what the engine sent, the front end's thread the rest.

    Attributes:
        messages: Number of outputs received.
        steps: Number of steps received.
        stats: The engine's latest state.
        outputs: The most recent outputs: time on the engine's clock in ns, cause,
            number of running and of waiting requests.
        commands: The most recent commands: time on the front end's clock in ns, kind,
            and ids of its requests.
        unheard: Arrival of each request that the engine has not confirmed yet, in ns
            on the front end's clock, in the order in which they were sent.
        num_slow_calls: Open calls that may take long, such as a wake-up.
        is_over: Whether the engine has ended.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.steps = 0
        self.stats = SchedulerStats()
        self.outputs: deque[tuple[int, str, int, int]] = deque(maxlen=MOST_RECENT)
        self.commands: deque[tuple[int, str, list[int]]] = deque(maxlen=MOST_RECENT)
        self.unheard: deque[int] = deque()
        self.num_slow_calls = 0
        self.is_over = False

    # -- of the receiving thread -------------------------------------------------

    def heard(self, output: StepOutput) -> None:
        """Counts an output of the engine."""
        self.messages += 1
        self.stats = stats = output.stats
        self.outputs.append((output.at, output.cause, stats.running, stats.waiting))
        if output.record is not None:
            self.steps += 1

    # -- of the front end's thread -----------------------------------------------

    def sent(self, command: Command, at: int) -> None:
        """Keeps a command for a report."""
        ids: list[int] = []
        if isinstance(command, Add):
            ids = [command.request.request_id]
        elif isinstance(command, Finish):
            ids = command.request_ids[:MOST_RECENT]
        self.commands.append((at, type(command).__name__, ids))

    def begin_slow_call(self, reply: Future[Any]) -> None:
        """Counts a call as slow until its reply is settled or abandoned."""
        self.num_slow_calls += 1
        reply.add_done_callback(self._end_slow_call)

    def _end_slow_call(self, _: Future[Any]) -> None:
        self.num_slow_calls -= 1

    # -- of the watching thread --------------------------------------------------

    @property
    def oldest_unheard(self) -> int | None:
        """Arrival of the oldest request that the engine has not confirmed, ns."""
        try:
            return self.unheard[0]
        except IndexError:
            return None

    @property
    def has_work(self) -> bool:
        """Whether requests need a step; those of a sleeping engine do not."""
        stats = self.stats
        if stats.sleep_level:
            return False
        return bool(self.unheard or stats.running or stats.waiting)


@dataclass(frozen=True, slots=True)
class Stall:
    """A stalled engine.

    Attributes:
        reason: What it does not do, in one clause.
        seconds: How long it has not done it.
        is_final: Whether it lasts so long that the engine's requests are given up.
    """

    reason: str
    seconds: float
    is_final: bool


class EngineWatch:
    """Measures how long one engine has been silent and without a step.

    It adds up the times between looks in which nothing came, rather than subtracting
    times of messages. So time in which the watching process itself was stopped or had
    no processor is not held against the engine, and a message costs an increment.
    """

    def __init__(
        self, vitals: EngineVitals, config: SupervisionConfig, heartbeat_seconds: float
    ) -> None:
        self.vitals = vitals
        self._limit = config.step_timeout
        self._heartbeat = heartbeat_seconds
        self._messages = self._steps = 0
        self._silent = self._stepless = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come for longer than a healthy engine is silent."""
        return self._silent > self._heartbeat

    def look(self, seconds: float, *, stopped: str = "") -> Stall | None:
        """Judges the engine.

        Args:
            seconds: Time since the last look, as far as this process ran.
            stopped: Which of the engine's processes is stopped, in words; empty if
                none is.
        """
        vitals = self.vitals
        has_work = vitals.has_work
        self._silent = self._since(self._messages, vitals.messages, seconds)
        if not has_work or vitals.steps != self._steps or vitals.num_slow_calls:
            self._stepless = 0.0
        else:
            self._stepless += seconds
        self._messages, self._steps = vitals.messages, vitals.steps
        return self._judge(has_work=has_work, stopped=stopped)

    def _since(self, before: int, now: int, seconds: float) -> float:
        return 0.0 if before != now else self._silent + seconds

    def _judge(self, *, has_work: bool, stopped: str) -> Stall | None:
        is_first = has_work and not self._steps
        limit = self._limit * (FIRST_STEP_FACTOR if is_first else 1)
        # Without work it sends a heartbeat now and then.
        quiet = limit + (0.0 if has_work else self._heartbeat)
        if stopped:
            is_final = self._silent > self._limit + self._heartbeat
            early = min(STOPPED_SECONDS, self._limit) + self._heartbeat
            if self._silent > early:
                return Stall(f"{stopped} is stopped", self._silent, is_final)
        if self._stepless > limit:
            reason = f"{stopped} is stopped" if stopped else self._stepless_reason()
            return Stall(reason, self._stepless, is_final=True)
        if self._silent > quiet and not self.vitals.num_slow_calls:
            return Stall("it sends nothing", self._silent, is_final=True)
        return None

    def _stepless_reason(self) -> str:
        if self._silent >= self._limit:
            return "it sends nothing and runs no step"
        return "it answers but runs no step"
