"""The signs of life of one engine."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hookline.engine.commands import Add, Command, Finish
from hookline.events import StepOutput
from hookline.stats.scheduler_stats import SchedulerStats

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


@dataclass(frozen=True, slots=True)
class Stall:
    """A stalled engine.

    Attributes:
        reason: What it does not do, in one clause.
        seconds: How long it has not done it.
        is_final: Whether it lasts so long that the engine's requests are given up, and
            that it gets no more.
    """

    reason: str
    seconds: float
    is_final: bool
