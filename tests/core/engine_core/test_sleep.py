"""Sleep and wake-up of an engine: memory, held requests, modes, states."""

from collections import deque

import pytest

from hookline.clock import VirtualClock
from hookline.config import SchedulerConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineCommand,
    Finish,
    IsSleeping,
    Reply,
    ResetPrefixCache,
    Sleep,
    SleepMode,
    SleepState,
    WakeUp,
)
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.worker.executor import Executor
from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline.stats.scheduler_stats import Residue
from hookline.step import SleepLevel
from hookline_testing.simulation import engine_request, simulated_core

AWAKE = SleepState(None)
LIGHT, DEEP = SleepState(SleepLevel.KV_CACHE), SleepState(SleepLevel.WEIGHTS)


class Driven:
    """A loop whose commands come from a list, on a virtual clock."""

    def __init__(self, *, is_async: bool = False) -> None:
        clock = VirtualClock()
        self.levels: list[SleepLevel | None] = []
        self.core = simulated_core(
            clock=clock,
            scheduler=SchedulerConfig(max_num_seqs=2, async_scheduling=is_async),
            wrap=self._watch,
        )
        self.loop = EngineLoop(self.core, heartbeat_seconds=1000.0)
        self.outputs: list[StepOutput] = []
        self.replies: list[Reply] = []
        self._calls = 0

    def _watch(self, executor: Executor) -> Executor:
        sleep, wake_up = executor.sleep, executor.wake_up

        def note_sleep(level: SleepLevel) -> None:
            self.levels.append(level)
            sleep(level)

        def note_wake_up() -> None:
            self.levels.append(None)
            wake_up()

        executor.sleep = note_sleep  # type: ignore[method-assign]
        executor.wake_up = note_wake_up  # type: ignore[method-assign]
        return executor

    def turn(self, *commands: Command) -> list[str]:
        """Takes one turn; returns the kinds of what came of it, in order."""
        waiting = deque(commands)

        def receive(_: float) -> Command | None:
            return waiting.popleft() if waiting else None

        kinds = []
        for news in self.loop.run_once(receive, 0.0):
            if isinstance(news, StepOutput):
                self.outputs.append(news)
                kinds.append(news.cause)
            else:
                self.replies.append(news)
                kinds.append("reply")
        return kinds

    def call(self, command: EngineCommand[object]) -> list[str]:
        self._calls += 1
        return self.turn(Call(0, self._calls, command))  # type: ignore[arg-type]

    def run(self) -> None:
        """Turns until nothing comes any more."""
        while self.turn():
            pass

    @property
    def last_reply(self) -> object:
        """The value of the latest reply, or its error."""
        reply = self.replies[-1]
        return reply.value if reply.error is None else reply.error

    def tokens(self, request_id: int) -> list[int]:
        return [
            token
            for output in self.outputs
            for event in output.events.new_tokens
            if event.request_id == request_id
            for token in event.token_ids
        ]


def add(request_id: int, max_tokens: int) -> Add:
    return Add(engine_request(request_id, [3 + request_id] * 20, max_tokens))


def undisturbed(request_id: int, max_tokens: int) -> list[int]:
    driven = Driven()
    driven.turn(add(request_id, max_tokens))
    driven.run()
    return driven.tokens(request_id)


@pytest.mark.parametrize("level", SleepLevel)
def test_an_idle_engine_sleeps_at_once(level: SleepLevel) -> None:
    """The state without reusable blocks comes first, then the reply; no step runs."""
    driven = Driven()
    driven.turn(add(1, 1))
    driven.run()
    cached = driven.outputs[-1].stats.kv_blocks_cached

    assert driven.call(Sleep(level)) == ["sleep", "reply"]
    assert driven.last_reply == SleepState(level)
    assert driven.levels == [level]
    assert cached > 0
    assert driven.outputs[-1].stats.kv_blocks_cached == 0
    assert driven.outputs[-1].stats.sleep_level == int(level)
    assert driven.turn(add(2, 3)) == []
    assert driven.call(IsSleeping()) == ["reply"]
    assert driven.last_reply == SleepState(level)

    assert driven.call(WakeUp()) == ["step"]
    assert driven.turn() == ["wake_up", "reply"]
    assert driven.last_reply == AWAKE
    assert driven.levels == [level, None]
    driven.run()
    assert driven.tokens(2) == undisturbed(2, 3)
    assert driven.outputs[-1].stats.sleep_level == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_running_requests_go_on_after_the_wake_up(*, is_async: bool) -> None:
    """Mode keep: they are preempted, hold no block in between, and lose no token."""
    driven = Driven(is_async=is_async)
    driven.turn(add(1, 8), add(2, 9), add(3, 5))
    driven.turn()

    driven.call(Sleep(mode=SleepMode.KEEP))
    while not driven.replies:
        driven.turn()
    asleep = driven.outputs[-1].stats
    assert driven.turn() == []
    driven.call(WakeUp())
    driven.run()

    assert (asleep.running, asleep.waiting, asleep.kv_blocks_used) == (0, 3, 0)
    assert asleep.totals.residue == Residue()
    for request_id, max_tokens in ((1, 8), (2, 9), (3, 5)):
        assert driven.tokens(request_id) == undisturbed(request_id, max_tokens)
    assert driven.outputs[-1].stats.totals.finished == {"length": 3}
    assert driven.outputs[-1].stats.totals.residue == Residue()


def test_running_requests_may_finish_first() -> None:
    """Mode wait: no request is preempted, and none is admitted."""
    driven = Driven()
    driven.turn(add(1, 4), add(2, 6), add(3, 2))

    assert driven.call(Sleep(mode=SleepMode.WAIT)) == ["step"]
    while not driven.replies:
        driven.turn()
    asleep = driven.outputs[-1].stats

    assert asleep.totals.finished == {"length": 2}
    assert (asleep.waiting, asleep.totals.preemptions, asleep.sleep_level) == (1, 0, 1)
    assert driven.tokens(3) == []
    driven.call(WakeUp())
    driven.run()
    assert driven.tokens(3) == undisturbed(3, 2)


def test_all_requests_may_be_aborted() -> None:
    """Mode abort: running and waiting requests end, with the cause in their event."""
    driven = Driven()
    driven.turn(add(1, 4), add(2, 6), add(3, 2))

    assert driven.call(Sleep(mode=SleepMode.ABORT)) == ["sleep", "reply"]

    ends = driven.outputs[-1].events.finished
    assert [(each.request_id, each.cause) for each in ends] == [
        (request_id, Aborted("sleep")) for request_id in (1, 2, 3)
    ]
    assert driven.outputs[-1].stats.totals.residue == Residue()


def test_requests_can_be_aborted_during_sleep() -> None:
    """An abort reaches a held request at once, and a state shows it."""
    driven = Driven()
    driven.call(Sleep())
    driven.turn(add(1, 4))

    assert driven.turn(Finish([1], Aborted("gone"))) == ["abort"]
    assert driven.outputs[-1].stats.totals.finished == {"abort": 1}
    assert driven.outputs[-1].stats.sleep_level == 1


def test_sleep_can_become_deeper() -> None:
    """Level 2 follows level 1; a lighter sleep than the present one changes nothing."""
    driven = Driven()

    driven.call(Sleep(SleepLevel.KV_CACHE))
    assert driven.call(Sleep(SleepLevel.WEIGHTS)) == ["sleep", "reply"]
    assert driven.last_reply == DEEP
    assert driven.call(Sleep(SleepLevel.KV_CACHE)) == ["reply"]
    assert driven.last_reply == DEEP
    assert driven.levels == [SleepLevel.KV_CACHE, SleepLevel.WEIGHTS]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", [SleepMode.WAIT, SleepMode.KEEP])
def test_a_wake_up_cancels_a_sleep_that_waits(
    mode: SleepMode, *, is_async: bool
) -> None:
    """The sleeper gets an error, or had its sleep; requests go on in both cases."""
    driven = Driven(is_async=is_async)
    driven.turn(add(1, 9))
    driven.turn()

    driven.turn(Call(0, 1, Sleep(mode=mode)), Call(0, 2, WakeUp()))
    driven.run()

    replies = {reply.number: reply for reply in driven.replies}
    assert replies[1].error == "cancelled by a wake-up"
    assert replies[2] == Reply(0, 2, AWAKE)
    assert driven.levels == []
    assert driven.tokens(1) == undisturbed(1, 9)


def test_a_second_sleep_is_refused_while_the_first_waits() -> None:
    """One at a time: the second call gets an error, the first its reply."""
    driven = Driven()
    driven.turn(add(1, 3))

    driven.turn(Call(0, 1, Sleep(mode=SleepMode.WAIT)), Call(0, 2, Sleep()))
    driven.run()

    replies = {reply.number: reply for reply in driven.replies}
    assert replies[2].error == "the engine is going to sleep already"
    assert replies[1] == Reply(0, 1, LIGHT)


def test_waking_an_awake_engine_changes_nothing() -> None:
    """It replies at once; a reset during sleep is answered, too."""
    driven = Driven()

    assert driven.call(WakeUp()) == ["reply"]
    driven.call(Sleep())
    assert driven.call(ResetPrefixCache()) == ["reset", "reply"]
    assert driven.outputs[-1].stats.sleep_level == 1
