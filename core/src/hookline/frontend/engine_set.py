"""The engines behind a front end, with the state of each."""

from collections.abc import Callable, Iterator

from hookline.core.commands import Command
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.output_processor import OutputProcessor
from hookline.stats import SchedulerStats
from hookline.transport.engine_client import EngineClient, EngineInfo

_WAITING_WEIGHT = 4
"""Load of a waiting request, in running requests."""


class EngineState:
    """One engine as its front end knows it.

    Attributes:
        index: The engine's index.
        facts: Its model, sizes and limits.
        clock: Its clocks when it was ready.
        outputs: Delivers its outputs to their clients.
        stats: Its latest state.
        stats_at: Time of `stats`, on the engine's clock.
        failure: Why the engine died or was closed; None while it lives.
    """

    def __init__(self, index: int, info: EngineInfo, outputs: OutputProcessor) -> None:
        self.index = index
        self.facts = info.facts
        self.clock = info.clock
        self.outputs = outputs
        self.stats = SchedulerStats()
        self.stats_at = info.clock.monotonic
        self.failure: str | None = None
        self._num_sent = 0
        self._num_queued = 0

    @property
    def accounting(self) -> RequestAccounting:
        """The front end's requests on this engine, in numbers."""
        return self.outputs.accounting

    @property
    def is_asleep(self) -> bool:
        return self.stats.sleep_level > 0

    @property
    def load(self) -> int:
        """Load by the latest state, plus requests that it does not include yet."""
        on_the_way = self._num_sent - self._num_queued
        return _WAITING_WEIGHT * self.stats.waiting + self.stats.running + on_the_way

    def sent(self, num_requests: int) -> None:
        """Counts requests that were sent to the engine."""
        self._num_sent += num_requests

    def update(self, output: StepOutput) -> None:
        """Updates the state from an output."""
        self.stats = output.stats
        self.stats_at = output.record.ended_at if output.record else output.at
        self._num_queued += len(output.queued)


class EngineSet:
    """Engines by their index, reached through one client.

    Attributes:
        client: The connection to all of them.
    """

    def __init__(
        self,
        client: EngineClient,
        make_outputs: Callable[[EngineInfo], OutputProcessor],
    ) -> None:
        self.client = client
        self._engines = {
            index: EngineState(index, info, make_outputs(info))
            for index, info in sorted(client.engines.items())
        }

    def __getitem__(self, index: int) -> EngineState:
        return self._engines[index]

    def __iter__(self) -> Iterator[EngineState]:
        return iter(self._engines.values())

    def __len__(self) -> int:
        return len(self._engines)

    @property
    def first(self) -> EngineState:
        """The engine with the lowest index; all share its model and its limits."""
        return next(iter(self._engines.values()))

    @property
    def live(self) -> list[EngineState]:
        return [engine for engine in self if engine.failure is None]

    @property
    def failure(self) -> str | None:
        """Why the last engine ended; None while one lives."""
        failures = [engine.failure for engine in self]
        return None if None in failures else failures[-1]

    @property
    def num_unconfirmed(self) -> int:
        """Completions that no engine has confirmed to have ended."""
        return sum(engine.accounting.num_in_flight for engine in self)

    @property
    def num_waiting_tokens(self) -> int:
        """Prompt tokens of completions that were not scheduled yet."""
        return sum(engine.accounting.num_waiting_tokens for engine in self)

    @property
    def num_ended(self) -> int:
        """Completions that have ended, for whatever reason."""
        return sum(sum(engine.accounting.finished.values()) for engine in self)

    @property
    def residue(self) -> int:
        """Requests unaccounted for in the front end; 0, or there is a bug."""
        return sum(engine.accounting.residue for engine in self)

    def choose(self) -> EngineState:
        """Returns the live engine with the least load, an awake one if possible.

        Raises:
            EngineDeadError: All engines are dead.
        """
        live = self.live
        if not live:
            raise EngineDeadError(self.failure or "no engine is left")
        if len(live) == 1:
            return live[0]
        return min(live, key=lambda each: (each.is_asleep, each.load))

    def send(self, engine: EngineState, command: Command) -> None:
        """Sends a command to one engine.

        Raises:
            EngineDeadError: The engine is dead.
        """
        self.client.send(engine.index, command)
