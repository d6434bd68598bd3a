"""An executor on a separate thread: order, errors, shutdown."""

import threading
from collections.abc import Callable

import pytest

from hookline.clock import SystemClock
from hookline.config import EngineConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.making import make_scheduler_parts
from hookline.step import ModelShape, StepPlan, StepResult
from hookline_models.threaded import ThreadedExecutor
from hookline_simulated.config import SimulationConfig
from hookline_simulated.executor import SimulatedExecutor
from hookline_testing.simulation import engine_request, run_to_end, tokens_of

NAME = "hookline-forward"
WAIT_SECONDS = 10.0
QUICK = SimulationConfig(
    step_seconds=0.0, prefill_token_seconds=0.0, decode_request_seconds=0.0
)
SHAPE = ModelShape(
    architecture="Simulated",
    dtype="float32",
    cache_dtype="float32",
    vocab_size=1000,
    max_model_len=64,
    num_kv_blocks=64,
    eos_token_ids=(),
)


class Watched(SimulatedExecutor):
    """Notes which thread does what, and asks before each step."""

    def __init__(self, before_step: Callable[[int], object]) -> None:
        super().__init__(QUICK, SystemClock(), SHAPE)
        self.before_step = before_step
        self.calls = [("build", threading.current_thread().name)]

    def _execute(self, plan: StepPlan) -> StepResult:
        self.calls.append((f"step {plan.step}", threading.current_thread().name))
        self.before_step(plan.step)
        return super()._execute(plan)

    def close(self) -> None:
        self.calls.append(("close", threading.current_thread().name))
        super().close()


def start_core(
    before_step: Callable[[int], object] = lambda _: None,
) -> tuple[EngineCore, Watched]:
    made: list[Watched] = []

    def build() -> Watched:
        made.append(Watched(before_step))
        return made[0]

    config = EngineConfig(scheduler=SchedulerConfig(async_scheduling=True))
    executor = ThreadedExecutor(build)
    facts = engine_facts(config, executor.shape)
    clock = SystemClock()
    parts = make_scheduler_parts(config, executor.shape, clock)
    return EngineCore(config, executor, clock, facts, parts), made[0]


def threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(NAME)]


def test_built_and_run_in_one_thread() -> None:
    """Loading and every step happen in the same thread, which ends with the engine."""
    core, watched = start_core()
    core.add(engine_request(1, [3, 4, 5], 4))

    tokens = tokens_of(run_to_end(core))
    core.close()

    assert len(tokens[1]) == 4
    worked = [call for call in watched.calls if call[0] != "close"]
    assert {name for _, name in worked} == {f"{NAME}_0"}
    assert [what for what, _ in worked] == [
        "build",
        *(f"step {n}" for n in range(1, 5)),
    ]
    assert threads() == []


def test_the_next_step_is_handed_over_while_one_runs() -> None:
    """When a step begins, the core plans the next; it does not wait for the tokens."""
    planned = threading.Event()
    core, watched = start_core(lambda step: step > 1 or planned.wait(WAIT_SECONDS))
    start = core._executor.start

    def note(plan: StepPlan) -> object:
        started = start(plan)
        if plan.step == 2:
            assert watched.calls[-1][0] in {"build", "step 1"}
            planned.set()
        return started

    core._executor.start = note  # type: ignore[method-assign,assignment]
    core.add(engine_request(1, [3, 4, 5], 3))

    outputs = run_to_end(core)
    core.close()

    assert planned.is_set()
    assert [output.record.step for output in outputs if output.record] == [1, 2, 3]


def test_a_failing_steps_result_raises() -> None:
    """An error in the thread is raised by the step's result, and close returns."""

    def fail(step: int) -> None:
        if step == 3:
            raise RuntimeError("the device fell off")

    core, _ = start_core(fail)
    core.add(engine_request(1, [3, 4, 5], 9))
    causes = [core.step().cause for _ in range(3)]

    assert causes == ["start", "step", "step"]
    with pytest.raises(RuntimeError, match="fell off"):
        core.step()
    core.close()

    assert threads() == []


def test_close_waits_for_the_step_under_way() -> None:
    """The executor is closed after its step; the step behind it is not begun."""
    begun, may_end = threading.Event(), threading.Event()

    def hold(step: int) -> None:
        if step == 2:
            begun.set()
            assert may_end.wait(WAIT_SECONDS)

    core, watched = start_core(hold)
    core.add(engine_request(1, [3, 4, 5], 9))
    core.step()
    core.step()
    assert begun.wait(WAIT_SECONDS)
    core._schedule_and_start()
    closing = threading.Thread(target=core.close)
    closing.start()
    closing.join(0.1)
    still_closing = closing.is_alive()
    may_end.set()
    closing.join(WAIT_SECONDS)

    assert still_closing
    assert not closing.is_alive()
    assert [what for what, _ in watched.calls] == ["build", "step 1", "step 2", "close"]
    assert threads() == []


def test_an_error_while_building_leaves_no_thread() -> None:
    """What the model's loading raises goes to the caller as it is."""

    def build() -> Watched:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        ThreadedExecutor(build)
    assert threads() == []
