"""The engines behind a front end, with the state of each."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from hookline.clock import Clock
from hookline.engine.commands import Command
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.engine_vitals import EngineVitals, Stall
from hookline.frontend.output_processor import OutputProcessor
from hookline.plugin_loading.extensions import typed_facts
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.transport.engine_client import (
    EngineClient,
    EngineDied,
    EngineInfo,
    Received,
)

_WAITING_WEIGHT = 4
"""Load of a waiting request, in running requests."""


class EngineState:
    """One engine as its front end knows it.

    Attributes:
        index: The engine's index.
        facts: Its model, sizes and limits.
        clock: Its clocks when it was ready.
        outputs: Delivers its outputs to their clients.
        accounting: The front end's requests on this engine, in numbers.
        stats: Its latest state.
        stats_at: Time of `stats`, on the engine's clock.
        failure: Why the engine died or was closed; None while it lives.
        vitals: Its signs of life.
        stall: Its stall in progress; None while it works.
        death: The end of its process while that is being replaced; else None.
        is_leaving: Whether it finishes its requests and then ends.
        is_surplus: Whether it leaves because fewer engines are wanted.
    """

    def __init__(
        self,
        index: int,
        info: EngineInfo,
        outputs: OutputProcessor,
        changed: Callable[[], None],
    ) -> None:
        self.index = index
        self.facts = typed_facts(info.facts)
        self.clock = info.clock
        self.outputs = outputs
        self.accounting: RequestAccounting = outputs.accounting
        self.stats = SchedulerStats()
        self.stats_at = info.clock.monotonic
        self.failure: str | None = None
        self.vitals = EngineVitals()
        self.stall: Stall | None = None
        self.death: EngineDied | None = None
        self.is_leaving = False
        self.is_surplus = False
        self._changed = changed

    @property
    def is_asleep(self) -> bool:
        return self.stats.sleep_level > 0

    @property
    def load(self) -> int:
        """This front end's requests in flight there, and its share of those that wait.

        It leaves out the requests of other front ends: an engine reports them to all at
        the same time, and late, so that all would choose the engine that looked best.
        """
        own, waiting = self.accounting.num_in_flight, self.stats.waiting
        share = own * waiting // max(1, waiting + self.stats.running)
        return own + (_WAITING_WEIGHT - 1) * share

    @property
    def num_reported(self) -> int:
        """Completions of all front ends that the engine's latest state counts."""
        stats = self.stats
        return stats.running + stats.waiting + sum(stats.held.values())

    @property
    def num_open(self) -> int:
        """Completions of all front ends that have not ended, as far as is known here.

        The engine's state counts them all, those of other front ends up to that state.
        """
        known = self.num_reported + len(self.vitals.unheard)
        return max(self.accounting.num_in_flight, known)

    @property
    def num_ended(self) -> int:
        """This front end's completions that have ended there."""
        return sum(self.accounting.finished.values())

    def mark_ended(self, reason: str) -> None:
        """Marks the engine as ended for good."""
        self.failure = reason
        self.death = None
        self._end_process()

    def await_replacement(self, death: EngineDied) -> None:
        """Marks the engine as ended until its new process is ready."""
        self.death = death
        self._end_process()

    def replaced(self, info: EngineInfo) -> None:
        """Takes the new process in place of the old one."""
        self.facts, self.clock = typed_facts(info.facts), info.clock
        self.stats = SchedulerStats()
        self.stats_at = info.clock.monotonic
        self.vitals = EngineVitals()
        self.death = None
        self.is_leaving = self.is_surplus
        self.accounting.wall.set_engine(info.clock)
        self._changed()

    def _end_process(self) -> None:
        self.stall = None
        self.vitals.is_over = True
        self.vitals.unheard.clear()
        self._changed()

    def update(self, output: StepOutput) -> None:
        """Updates the state from an output."""
        self.stats = output.stats
        self.stats_at = output.record.ended_at if output.record else output.at
        unheard = self.vitals.unheard
        for _ in output.events.queued:
            if unheard:
                unheard.popleft()


class EngineSet:
    """Engines by their index, reached through one client.

    Attributes:
        client: The connection to all of them.
        clock: The front end's clock.
        live: The engines that have not ended for good.
        running: The live engines whose processes run.
        failure: Why the last engine ended; None while one lives.
        death: The end of a process being replaced, if no engine runs; else None.
    """

    def __init__(
        self,
        client: EngineClient,
        make_outputs: Callable[[EngineInfo], OutputProcessor],
        clock: Clock,
    ) -> None:
        self.client = client
        self.clock = clock
        self._make_outputs = make_outputs
        self._ended_of_left = 0
        # Replaced as a whole, because other threads iterate over it.
        self._engines = {
            index: self._made(index, info)
            for index, info in sorted(client.engines.items())
        }
        self._look()

    def __getitem__(self, index: int) -> EngineState:
        return self._engines[index]

    def __iter__(self) -> Iterator[EngineState]:
        return iter(self._engines.values())

    def __len__(self) -> int:
        return len(self._engines)

    def _made(self, index: int, info: EngineInfo) -> EngineState:
        return EngineState(index, info, self._make_outputs(info), self._look)

    def _look(self) -> None:
        """Notes which engines live and run, for each request needs to know that."""
        engines = list(self._engines.values())
        self.live = [engine for engine in engines if engine.failure is None]
        self.running = [engine for engine in self.live if engine.death is None]
        is_over = bool(engines) and not self.live
        self.failure = engines[-1].failure if is_over else None
        are_gone = bool(self.live) and not self.running
        self.death = self.live[0].death if are_gone else None

    def add(self, index: int, info: EngineInfo) -> EngineState:
        """Adds a new engine, perhaps in the place of one that has ended for good."""
        if index in self._engines:
            self.remove(index)
        made = self._made(index, info)
        self._engines = dict(sorted({**self._engines, index: made}.items()))
        self._look()
        return made

    def remove(self, index: int) -> None:
        """Removes an engine that has ended."""
        left = dict(self._engines)
        self._ended_of_left += left.pop(index).num_ended
        self._engines = left
        self._look()

    def get(self, index: int) -> EngineState | None:
        """Returns an engine; None if there is none of this index."""
        return self._engines.get(index)

    @property
    def most(self) -> int:
        """One more than the highest index."""
        return 1 + max(self._engines)

    @property
    def first(self) -> EngineState:
        """The engine with the lowest index; all share its model and its limits."""
        return next(iter(self._engines.values()))

    @property
    def staying(self) -> list[EngineState]:
        """The engines that run and get new requests; all that run if none does."""
        running = self.running
        if len(running) == 1:
            return running
        return [each for each in running if not each.is_surplus] or running

    @property
    def stall(self) -> Stall | None:
        """The stall of an engine if none of those that run works; else None."""
        stalls = [engine.stall for engine in self.running]
        return None if None in stalls or not stalls else stalls[0]

    @property
    def is_asleep(self) -> bool:
        """Whether all engines that run sleep."""
        running = self.running
        return bool(running) and all(engine.is_asleep for engine in running)

    @property
    def num_unconfirmed(self) -> int:
        """This front end's completions that no engine has confirmed to have ended."""
        found = 0
        for engine in self._engines.values():
            found += len(engine.accounting.in_flight)
        return found

    @property
    def num_open(self) -> int:
        """Completions that have not ended, those of other front ends included."""
        if self.client.owns_engines:
            return self.num_unconfirmed
        return sum(engine.num_open for engine in self)

    @property
    def num_waiting_tokens(self) -> int:
        """Prompt tokens of completions that were not scheduled yet."""
        found = 0
        for engine in self._engines.values():
            found += engine.accounting.num_waiting_tokens
        return found

    @property
    def num_ended(self) -> int:
        """Completions that have ended, for whatever reason."""
        return self._ended_of_left + sum(engine.num_ended for engine in self)

    @property
    def residue(self) -> int:
        """Requests unaccounted for in the front end; 0, or there is a bug."""
        return sum(engine.accounting.residue for engine in self)

    def heard(self, received: Received) -> None:
        """Counts a message as a sign of life; for the receiving thread."""
        if isinstance(received, StepOutput):
            engine = self._engines.get(received.engine_index)
            if engine is not None:  # else the front end has yet to hear of it
                engine.vitals.heard(received)

    def send(self, engine: EngineState, command: Command) -> None:
        """Sends a command to one engine.

        If the engine has just died, the report of its death is on its way to this
        thread, and settles what was sent.

        Raises:
            EngineDeadError: The engine is known to be dead.
        """
        if engine.failure is not None:
            raise EngineDeadError(engine.failure)
        engine.vitals.sent(command, self.clock.now())
        with suppress(EngineDeadError):
            self.client.send(engine.index, command)
