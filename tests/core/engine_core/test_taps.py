"""Taps see what an engine decides, and cost and disturb nothing."""

from collections.abc import Callable, Iterator

import pytest

from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    ResetPrefixCache,
    SleepMode,
)
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.scheduler.readiness import Readiness
from hookline.engine.tap import Tap
from hookline.engine.worker.executor import Executor
from hookline.events import StepOutput
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest, Request
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult
from hookline_registry import as_one
from hookline_testing.simulation import engine_request, simulated_core


class Noting:
    """A tap that keeps all it gets; it raises at its n-th output, if asked."""

    def __init__(self, fails_at: int = 0) -> None:
        self.commands: list[tuple[int, Command]] = []
        self.plans: list[tuple[int, StepPlan]] = []
        self.results: list[tuple[int, StepPlan, StepResult]] = []
        self.obstacles: list[tuple[int, Obstacle]] = []
        self.gates: list[tuple[int, int, str]] = []
        self.outputs: list[EngineMessage] = []
        self.closed: list[BaseException | None] = []
        self._fails_at = fails_at

    def command(self, at: int, command: Command) -> None:
        self.commands.append((at, command))

    def planned(self, at: int, plan: StepPlan) -> None:
        self.plans.append((at, plan))

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        self.obstacles.append((at, obstacle))

    def gated(self, at: int, request_id: int, gate: str) -> None:
        self.gates.append((at, request_id, gate))

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        self.results.append((at, plan, result))

    def output(self, at: int, message: EngineMessage) -> None:
        del at
        self.outputs.append(message)
        if len(self.outputs) == self._fails_at:
            raise OSError("disk full")

    def close(self, error: BaseException | None) -> None:
        self.closed.append(error)


def drive(loop: EngineLoop, *commands: Command, turns: int = 20) -> list[EngineMessage]:
    """Gives all commands first, and takes this many turns."""
    waiting = list(commands)
    news: list[EngineMessage] = []
    for _ in range(turns):
        news += loop.run_once(lambda _: waiting.pop(0) if waiting else None, 0.0)
    return news


def adds(*requests: GenerateRequest) -> Iterator[Add]:
    return map(Add, requests)


def first_obstacle(core: EngineCore, *requests: GenerateRequest) -> Obstacle:
    tap = Noting()
    drive(EngineLoop(core, 1000.0, tap), *adds(*requests), turns=1)
    return tap.plans[0][1].work.obstacle


@pytest.mark.parametrize(
    ("make", "obstacle"),
    [
        (simulated_core, Obstacle.NONE),
        (
            lambda: simulated_core(scheduler=SchedulerConfig(max_num_seqs=2)),
            Obstacle.BATCH_SLOTS,
        ),
        (
            lambda: simulated_core(
                scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=20)
            ),
            Obstacle.TOKEN_BUDGET,
        ),
        (
            lambda: simulated_core(
                cache=CacheConfig(num_kv_blocks=2), max_model_len=32
            ),
            Obstacle.KV_BLOCKS,
        ),
        (
            lambda: simulated_core(stages=2, scheduler=SchedulerConfig(max_num_seqs=4)),
            Obstacle.SHARE,
        ),
    ],
)
def test_a_plan_says_why_no_more_were_admitted(
    make: Callable[[], EngineCore], obstacle: Obstacle
) -> None:
    """Three prompts of 16 tokens that wait for one step, and what holds the last."""
    requests = [engine_request(number, [number + 3] * 16, 4) for number in (1, 2, 3)]

    assert first_obstacle(make(), *requests) is obstacle


def test_a_preemption_is_an_obstacle() -> None:
    """While requests lose their blocks, none is admitted for want of them."""
    core = simulated_core(cache=CacheConfig(num_kv_blocks=3), max_model_len=48)
    tap = Noting()
    requests = [engine_request(number, [number + 3] * 15, 20) for number in (1, 2)]

    drive(EngineLoop(core, 1000.0, tap), *adds(*requests))

    found = {plan.work.obstacle for _, plan in tap.plans}
    assert found == {Obstacle.NONE, Obstacle.KV_BLOCKS}


def test_a_tap_gets_commands_plans_results_and_outputs_in_order() -> None:
    """Each plan has its result, and each result the output of its step."""
    tap = Noting()
    loop = EngineLoop(simulated_core(), 1000.0, tap)
    commands: list[Command] = [
        Add(engine_request(1, [3, 4, 5], 4)),
        Finish([7], Aborted("gone")),
    ]

    news = drive(loop, *commands)
    loop.close()

    assert [each for _, each in tap.commands] == commands
    assert [plan for _, plan in tap.plans] == [plan for _, plan, _ in tap.results]
    records = [
        each.record
        for each in tap.outputs
        if isinstance(each, StepOutput) and each.record is not None
    ]
    assert [each.step for each in records] == [plan.step for _, plan in tap.plans]
    assert [each.scheduled_at for each in records] == [at for at, _ in tap.plans]
    assert [each.executed_at for each in records] == [at for at, _, _ in tap.results]
    assert tap.outputs == news
    assert tap.closed == [None]


def test_a_tap_that_raises_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The other taps and the engine go on as if it had never been there."""
    faulty, other = Noting(fails_at=3), Noting()
    tapped = EngineLoop(simulated_core(), 1000.0, as_one(Tap, [faulty, other]))
    plain = EngineLoop(simulated_core(), 1000.0)
    add = Add(engine_request(1, [3, 4, 5], 8))

    news = drive(tapped, add)

    assert news == drive(plain, add)
    tapped.close()
    assert (len(faulty.outputs), faulty.closed) == (3, [])
    assert (other.outputs, other.closed) == (news, [None])
    assert caplog.text.count("the tap Noting failed and is not called again") == 1
    assert "disk full" in caplog.text


class Broken:
    """An executor whose second step fails."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._steps = executor, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._executor, name)

    def start(self, plan: StepPlan) -> object:
        self._steps += 1
        if self._steps == 2:
            raise RuntimeError("out of order")
        return self._executor.start(plan)


def test_an_engine_that_fails_closes_its_taps_with_the_error() -> None:
    """They have the plan of the step that failed, and are closed once."""
    tap = Noting()
    core = simulated_core(wrap=Broken)  # type: ignore[arg-type]  # it delegates the rest
    loop = EngineLoop(core, 1000.0, as_one(Tap, [tap]))

    with pytest.raises(RuntimeError, match="out of order") as caught:
        drive(loop, Add(engine_request(1, [3, 4], 9)))
    loop.close()

    assert tap.closed == [caught.value]
    assert (len(tap.plans), len(tap.results)) == (2, 1)


class Shut:
    """A gate that is closed for a request until it is opened."""

    name, param, timeout_ns, is_pending = "grammar", None, None, False

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.held: list[Request] = []
        self.is_opened = False

    def is_open(self, request: Request) -> bool:
        if self.is_opened or request.request_id != self.request_id:
            return True
        self.held.append(request)
        return False

    def take_ready(self) -> list[Readiness]:
        if not self.is_opened:
            return []
        held, self.held = self.held, []
        return [Readiness(each) for each in held]

    def cancel(self, request: Request) -> None:
        self.held.remove(request)

    def close(self) -> None:
        """Has nothing to end."""


def test_gates_are_told_and_are_an_obstacle() -> None:
    """A request that is held, until when, and that nothing else waits meanwhile."""
    gate, tap = Shut(2), Noting()
    loop = EngineLoop(simulated_core(gates=[gate]), 1000.0, tap)

    drive(loop, *adds(*(engine_request(each, [3] * 4, 2) for each in (1, 2))), turns=6)
    gate.is_opened = True
    drive(loop, turns=6)

    assert [plan.work.obstacle for _, plan in tap.plans[:2]] == [Obstacle.GATE] * 2
    assert {each for _, each in tap.obstacles} == {Obstacle.GATE}
    (held_at, *held), (opened_at, *opened) = tap.gates
    assert (held, opened) == ([2, "grammar"], [2, ""])
    assert held_at < tap.obstacles[0][0] <= opened_at
    assert tap.plans[-1][1].work.obstacle is Obstacle.NONE


def test_a_result_in_flight_is_an_obstacle() -> None:
    """A request that lost its blocks waits for the token that its step still brings."""
    core, tap = simulated_core(stages=2), Noting()
    loop = EngineLoop(core, 1000.0, tap)
    drive(loop, Add(engine_request(1, [3] * 4, 9)), turns=1)

    drive(loop, Call(0, 1, ResetPrefixCache(reset_running_requests=True)), turns=2)

    assert [each for _, each in tap.obstacles] == [Obstacle.PIPELINE]


def test_sleep_is_an_obstacle() -> None:
    """Requests that come while an engine goes to sleep wait for that."""
    core, tap = simulated_core(), Noting()
    loop = EngineLoop(core, 1000.0, tap)
    drive(loop, Add(engine_request(1, [3] * 4, 9)), turns=2)

    core.hold(SleepMode.WAIT)
    drive(loop, Add(engine_request(2, [4] * 4, 9)), turns=30)

    obstacles = [plan.work.obstacle for _, plan in tap.plans]
    assert (obstacles[0], obstacles[-1]) == (Obstacle.NONE, Obstacle.SLEEP)
    assert {each for _, each in tap.obstacles} == {Obstacle.SLEEP}
