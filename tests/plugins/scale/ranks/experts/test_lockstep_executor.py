"""Engine cores that keep step, with simulated models."""

import select
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from hookline.engine.commands import Add, Call, Command, Reply, Sleep, SleepMode, WakeUp
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.worker.executor import Executor
from hookline.events import StepOutput
from hookline.stats.step_work import RankUse
from hookline_metrics.expert_stats import expert_stats
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.lockstep import Lockstep
from hookline_ranks.experts.lockstep_executor import LockstepExecutor
from hookline_testing.sharing_engines import expert_links
from hookline_testing.simulation import engine_request, simulated_core

SHARE = RankUse(expert_tokens=(3,), expert_busiest_tokens=5, expert_wait_ns=7)
"""What each dummy step computes."""
TOKENS = 4
SLEEP = Call(0, 1, Sleep(mode=SleepMode.WAIT))
WAKE_UP = Call(0, 2, WakeUp())


@dataclass
class Engine:
    """An engine and the commands that wait for it."""

    loop: EngineLoop
    commands: deque[Command] = field(default_factory=deque)

    @property
    def core(self) -> EngineCore:
        return self.loop.core

    @property
    def dummies(self) -> int:
        return expert_stats(self.core.report("test").stats).dummy_steps

    @property
    def is_rung(self) -> bool:
        sharing = self.core.sharing
        assert sharing is not None
        bell = sharing.bell
        assert bell is not None
        return bool(select.select([bell], [], [], 0)[0])

    def receive(self, _: float) -> Command | None:
        return self.commands.popleft() if self.commands else None

    def turn(self, *commands: Command) -> list[Reply]:
        """Takes a turn; returns its replies."""
        self.commands.extend(commands)
        found = self.loop.run_once(self.receive, 0.0)
        return [each for each in found if isinstance(each, Reply)]

    def turns(self, count: int = 20) -> list[Reply]:
        return [reply for _ in range(count) for reply in self.turn()]


def together(links: ExpertLinks, inner: Executor) -> LockstepExecutor:
    lockstep = Lockstep(links, lambda: SHARE)
    return LockstepExecutor(inner, lockstep)


@contextmanager
def engines() -> Iterator[tuple[Engine, Engine]]:
    with expert_links(2) as links:
        first, second = (
            Engine(EngineLoop(simulated_core(wrap=partial(together, own)), 1e6))
            for own in links
        )
        yield first, second


def test_an_engine_without_work_follows_one_that_has_some() -> None:
    """As many dummy steps as steps; they bring no output, but are in the state."""
    with engines() as (first, second):
        first.turn(Add(engine_request(1, [3, 4, 5], TOKENS)))
        first.turns()
        outputs = [second.loop.run_once(second.receive, 0.0) for _ in range(TOKENS)]
        stats = second.core.report("test").stats

        assert outputs == [[]] * TOKENS
        assert first.dummies == 0
        assert expert_stats(stats).dummy_steps == TOKENS
        assert expert_stats(stats).tokens == (3 * TOKENS,)
        assert expert_stats(stats).busiest_tokens == 5 * TOKENS
        assert expert_stats(stats).wait_ns == 0
        assert stats.totals.computed_tokens == 0
        assert second.core.sharing is not None
        assert not second.core.sharing.assist_others()


def test_an_engine_with_work_needs_no_dummy_steps() -> None:
    """Its own steps are the others', too."""
    with engines() as (first, second):
        for each in (first, second):
            each.turn(Add(engine_request(1, [3, 4, 5], TOKENS)))
        for _ in range(20):
            first.turn()
            second.turn()

        assert (first.dummies, second.dummies) == (0, 0)
        for each in (first, second):
            assert each.core.report("test").stats.totals.finished == {"length": 1}


def test_engines_sleep_and_wake_up_together() -> None:
    """One that has nothing to do waits for the other, and assists it meanwhile."""
    with engines() as (first, second):
        first.turn(Add(engine_request(1, [3, 4, 5], TOKENS)))
        early = second.turn(SLEEP) + second.turns()
        late = first.turn(SLEEP) + first.turns()
        then = second.turns()

        assert early == []
        assert [reply.error for reply in (*late, *then)] == [None, None]
        assert second.dummies == TOKENS
        assert first.core.sleep_level == second.core.sleep_level is not None

        woken = [first.turn(WAKE_UP), first.turns()]
        first.turn(Add(engine_request(2, [3, 4, 5], TOKENS)))
        first.turns()
        asleep = second.dummies
        second.turn(WAKE_UP)
        second.turns()

        assert any(woken)
        assert asleep == TOKENS
        assert second.dummies == 2 * TOKENS


def test_a_sleeping_engine_is_not_kept_awake_by_its_bell() -> None:
    """It hears that others have work, and sleeps on."""
    with engines() as (first, second):
        for each in (first, second):
            each.turn(SLEEP)
        for each in (first, second, first):
            each.turns()
        first.turn(WAKE_UP)
        first.turn(Add(engine_request(1, [3, 4, 5], TOKENS)))
        first.turns()
        was_rung = second.is_rung
        second.turn()

        assert was_rung
        assert not second.is_rung
        assert second.core.sleep_level is not None


def test_steps_of_other_executors_are_not_counted() -> None:
    """An engine that shares no experts never assists."""
    core = simulated_core()
    core.add(engine_request(1, [3, 4, 5]))
    output = core.step()

    assert isinstance(output, StepOutput)
    assert expert_stats(output.stats).tokens == ()
    assert core.sharing is None


def test_whole_experts_of_one_engine_are_counted_without_others() -> None:
    """It has no bell, and needs nobody's leave to sleep."""
    made = list[LockstepExecutor]()

    def wrap(inner: Executor) -> LockstepExecutor:
        made.append(LockstepExecutor(inner))
        return made[0]

    core = simulated_core(wrap=wrap)
    (alone,) = made
    alone.count(SHARE)

    assert alone.bell is None
    assert not alone.assist_others()
    assert alone.rest()
    assert expert_stats(core.report("test").stats).tokens == (3,)
