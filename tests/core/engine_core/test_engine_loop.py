"""The loop around a core: heartbeats, and states between steps."""

from collections import deque

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import SchedulerConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    Reply,
    ResetPrefixCache,
    Told,
)
from hookline.engine.engine_loop import EngineLoop
from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline.request import FinishReason
from hookline.stats.scheduler_stats import Residue
from hookline_testing.simulation import engine_request, simulated_core


class Driven:
    """A loop with a command queue; waiting for a command moves the virtual clock."""

    def __init__(self, heartbeat_seconds: float = 100.0) -> None:
        self.clock = VirtualClock()
        scheduler = SchedulerConfig(max_num_seqs=2)
        core = simulated_core(clock=self.clock, scheduler=scheduler)
        self.loop = EngineLoop(core, heartbeat_seconds)
        self.commands: deque[Command] = deque()
        self.waits: list[float] = []

    def receive(self, timeout_seconds: float) -> Command | None:
        if self.commands:
            return self.commands.popleft()
        if timeout_seconds > 0:
            self.waits.append(timeout_seconds)
            self.clock.sleep(timeout_seconds)
        return None

    def turn(self, *commands: Command, timeout_seconds: float = 0.0) -> str:
        """Takes one turn; returns the cause of its output, or an empty string."""
        self.commands.extend(commands)
        self.output: StepOutput | None = None
        self.news: list[EngineMessage] = self.loop.run_once(
            self.receive, timeout_seconds
        )
        if not self.news:
            return ""
        assert isinstance(self.news[0], StepOutput)
        self.output = self.news[0]
        return self.output.cause

    @property
    def told(self) -> StepOutput:
        assert self.output is not None
        return self.output


RESET = Call(0, 1, ResetPrefixCache())


def add(request_id: int, max_tokens: int = 1) -> Add:
    return Add(engine_request(request_id, [3, 4, 5], max_tokens))


def abort(*request_ids: int) -> Finish:
    return Finish(list(request_ids), Aborted("client"))


def test_idle_engine_waits_without_output() -> None:
    """Without requests a turn waits for its full time-out and returns no output."""
    driven = Driven()

    assert driven.turn(timeout_seconds=3.0) == ""
    assert driven.waits == [3.0]


def test_idle_state_is_sent_once_after_the_last_request() -> None:
    """After the last step one state shows an empty engine; no output follows."""
    driven = Driven()

    causes = [driven.turn(add(1, 2)), *(driven.turn() for _ in range(3))]

    assert causes == ["step", "step", "idle", ""]


def test_idle_state_is_fresh() -> None:
    """The idle state has no requests, no residue, and a clock pair."""
    driven = Driven()
    driven.turn(add(1))

    assert driven.turn() == "idle"
    stats = driven.told.stats
    assert (stats.running, stats.waiting, stats.kv_blocks_used) == (0, 0, 0)
    assert (stats.totals.received, stats.totals.finished) == (1, {"length": 1})
    assert stats.totals.residue == Residue()
    assert driven.told.record is None
    assert driven.told.clock is not None
    assert driven.told.clock.monotonic == driven.told.at == 1 * NANOSECONDS


def test_heartbeat_while_idle() -> None:
    """An idle engine sends its state at the configured interval."""
    driven = Driven(heartbeat_seconds=5.0)

    causes = [driven.turn(timeout_seconds=60.0) for _ in range(4)]

    assert causes == ["", "heartbeat", "", "heartbeat"]
    assert driven.waits == [5.0, 5.0]


def test_heartbeat_while_busy() -> None:
    """A busy engine puts a state between its steps, and no step is lost."""
    driven = Driven(heartbeat_seconds=2.0)

    causes = [driven.turn(add(1, 5)), *(driven.turn() for _ in range(8))]

    assert causes == [
        "step",
        "step",
        "heartbeat",
        "step",
        "step",
        "heartbeat",
        "step",
        "idle",
        "",
    ]


def test_step_contains_arrival_times() -> None:
    """Every output has those of the oldest running and waiting requests."""
    driven = Driven()
    driven.turn(add(1, 9), add(2, 9))

    assert driven.turn(add(3)) == "step"
    stats = driven.told.stats
    assert (stats.running, stats.waiting) == (2, 1)
    assert stats.oldest_running_at == 0
    assert stats.oldest_waiting_at == 1 * NANOSECONDS


def test_heartbeat_at_the_end_replaces_the_idle_state() -> None:
    """After a heartbeat that shows an empty engine no idle state follows."""
    driven = Driven(heartbeat_seconds=1.0)
    driven.turn(add(1))

    assert [driven.turn(), driven.turn()] == ["heartbeat", ""]


def test_abort_of_the_last_request_is_sent_at_once() -> None:
    """An abort that empties the engine sends a state with FINISHED."""
    driven = Driven()
    driven.turn(add(1, 9))

    assert driven.turn(abort(1)) == "abort"
    (finished,) = driven.told.events.finished
    assert (finished.request_id, finished.reason) == (1, FinishReason.ABORT)
    assert (finished.cause, finished.output_tokens) == (Aborted("client"), 1)
    assert driven.told.stats.running == driven.told.stats.kv_blocks_used == 0
    assert driven.turn() == ""


def test_abort_among_others_is_sent_with_the_step() -> None:
    """While there is work, FINISHED of an abort is part of the next step's batch."""
    driven = Driven()
    driven.turn(add(1, 3), add(2, 9))

    assert driven.turn(abort(2)) == "step"
    assert [event.request_id for event in driven.told.events.finished] == [2]
    assert [event.request_id for event in driven.told.events.new_tokens] == [1]


def test_added_and_aborted_in_one_turn() -> None:
    """A request that goes before its first step is queued and finished, no more."""
    driven = Driven()

    assert driven.turn(add(1), abort(1)) == "abort"
    assert [event.request_id for event in driven.told.events.queued] == [1]
    assert [event.request_id for event in driven.told.events.finished] == [1]
    assert driven.told.events.scheduled == []


def test_abort_of_a_request_that_has_ended_is_harmless() -> None:
    """An abort that comes too late ends nothing, and a state answers it."""
    driven = Driven()
    driven.turn(add(1))
    driven.turn()

    assert driven.turn(abort(1, 99)) == "abort"
    assert driven.told.events.finished == []
    assert driven.told.stats.totals.finished == {"length": 1}


def test_reset_is_reported() -> None:
    """A reset sends a state without reusable blocks."""
    driven = Driven()
    driven.turn(Add(engine_request(1, [3] * 40, 1)))
    driven.turn()
    reusable = driven.told.stats.kv_blocks_cached

    assert driven.turn(RESET) == "reset"
    assert reusable == 2
    assert driven.told.stats.kv_blocks_cached == 0
    assert driven.news[1:] == [Reply(0, 1, Told())]


def test_reset_of_a_busy_engine_is_sent_before_the_next_step() -> None:
    """Running requests continue, and the state has no reusable block."""
    driven = Driven()
    driven.turn(Add(engine_request(1, [3] * 40, 1)), add(2, 3))
    reusable = driven.told.stats.kv_blocks_cached

    causes = [driven.turn(RESET)]
    state = driven.told
    causes += [driven.turn() for _ in range(4)]

    assert causes == ["reset", "step", "step", "idle", ""]
    assert (reusable, state.stats.kv_blocks_cached) == (2, 0)
    assert (state.stats.running, state.record) == (1, None)


def test_resets_do_not_keep_requests_from_running() -> None:
    """However many resets come, each state has a step behind it."""
    driven = Driven()
    reset = RESET

    causes = [driven.turn(add(1, 3), reset), *(driven.turn(reset) for _ in range(4))]

    assert causes == ["step", "reset", "step", "reset", "step"]
    assert [driven.turn(reset, reset), driven.turn()] == ["reset", ""]


def test_reset_with_an_abort_is_one_state() -> None:
    """Commands that arrive together are reported together, and only once."""
    driven = Driven()
    driven.turn(add(1, 9))

    assert driven.turn(RESET, abort(1)) == "reset"
    assert [event.request_id for event in driven.told.events.finished] == [1]
    assert driven.turn() == ""


def test_gauges_after_an_abort_among_others_are_sent_with_the_step() -> None:
    """The step's state, ages included, excludes the aborted request."""
    driven = Driven()
    driven.turn(add(1, 9))
    driven.turn(add(2, 9))
    driven.turn(abort(1))
    stats = driven.told.stats

    assert (stats.running, stats.waiting, stats.kv_blocks_used) == (1, 0, 1)
    assert stats.oldest_running_at == 1 * NANOSECONDS


def test_no_age_outlives_its_request() -> None:
    """Without running or waiting requests the same step's state has no ages."""
    driven = Driven(heartbeat_seconds=0.5)
    driven.turn(add(1, 2), add(2, 2), add(3, 2))

    told = []
    for commands in ((), (), (abort(3),)):
        cause = driven.turn(*commands)
        stats = driven.told.stats
        told.append((cause, stats.oldest_running_at, stats.oldest_waiting_at))

    assert told == [("heartbeat", 0, 0), ("step", None, 0), ("heartbeat", None, None)]


def test_command_that_ends_a_wait_is_done_in_the_next_turn() -> None:
    """A waiting loop takes a command at once and steps in the turn after."""
    driven = Driven()
    commands: list[Command] = [add(1)]

    def receive(timeout_seconds: float) -> Command | None:
        return commands.pop() if timeout_seconds > 0 else None

    assert driven.loop.run_once(receive, 10.0) == []
    assert driven.turn() == "step"


@pytest.mark.parametrize("max_tokens", [1, 4])
def test_every_event_is_sent_exactly_once(max_tokens: int) -> None:
    """Over steps, heartbeats and states no event is lost or repeated."""
    driven = Driven(heartbeat_seconds=1.5)
    outputs = []
    for request_id in range(1, 6):
        driven.turn(add(request_id, max_tokens))
        outputs.append(driven.output)
    while driven.turn():
        outputs.append(driven.told)

    told = [output for output in outputs if output is not None]
    for kind in ("queued", "scheduled", "finished"):
        events = [getattr(output.events, kind) for output in told]
        ids = [event.request_id for each in events for event in each]
        assert sorted(ids) == [1, 2, 3, 4, 5]
    brought = [event for output in told for event in output.events.new_tokens]
    assert sum(len(event.token_ids) for event in brought) == 5 * max_tokens
