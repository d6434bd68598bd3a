"""Steps of vLLM's scheduler, as taps get them."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.engine.commands import Add, Command
from hookline.events import StepOutput
from hookline.step import StepPlan, StepResult
from hookline_testing.fake_vllm import (
    LENGTH,
    EngineCoreOutput,
    SamplingParams,
    plan,
)
from hookline_vllm import scheduling, taps
from hookline_vllm.request_numbers import external_id, number_of
from hookline_vllm.scheduling import Guarded, telling, wrap_choice
from hookline_vllm.steps import StepTeller


class HeardTap:
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.plans: list[StepPlan] = []
        self.results: list[tuple[StepPlan, StepResult]] = []
        self.outputs: list[StepOutput] = []
        self.is_closed = False

    def command(self, _at: int, command: Command) -> None:
        self.commands.append(command)

    def planned(self, _at: int, plan: StepPlan) -> None:
        self.plans.append(plan)

    def computed(self, _at: int, plan: StepPlan, result: StepResult) -> None:
        self.results.append((plan, result))

    def output(self, _at: int, message: Any) -> None:
        self.outputs.append(message)

    def blocked(self, *_: object) -> None: ...

    def gated(self, *_: object) -> None: ...

    def close(self, _error: BaseException | None) -> None:
        self.is_closed = True


class Scheduler:
    """What is read of vLLM's, with plans that a test has prepared."""

    def __init__(self, plans: list[SimpleNamespace]) -> None:
        self._plans = deque(plans)
        self.waiting: list[object] = []
        self.running: list[object] = []
        self.max_num_running_reqs = self.max_num_scheduled_tokens = 64
        pool = SimpleNamespace(num_gpu_blocks=11, get_num_free_blocks=lambda: 7)
        self.kv_cache_manager = SimpleNamespace(block_pool=pool)
        parallel = SimpleNamespace(distributed_executor_backend="mp")
        self.vllm_config = SimpleNamespace(parallel_config=parallel)

    def get_grammar_bitmask(self, scheduler_output: object) -> None: ...

    def has_requests(self) -> bool:
        return bool(self._plans)

    def add_request(self, request: object) -> None:
        self.running.append(request)

    def schedule(self, throttle_prefills: bool = False) -> SimpleNamespace:  # noqa: ARG002
        plan = self._plans.popleft()
        for request in plan.preempts:
            self._preempt_request(request, 1.0)
        return plan

    def _preempt_request(
        self,
        request: SimpleNamespace,
        timestamp: float,  # noqa: ARG002
        drop_stale_output: bool = False,  # noqa: ARG002
    ) -> None:
        request.num_computed_tokens = 0

    def update_from_output(
        self,
        scheduler_output: object,  # noqa: ARG002
        model_runner_output: list[EngineCoreOutput],
    ) -> dict[int, SimpleNamespace]:
        return {0: SimpleNamespace(outputs=model_runner_output)}

    def finish_requests(
        self,
        request_ids: object,
        finished_status: object,  # noqa: ARG002
    ) -> list[Any]:
        return [each for each in self.running if each.request_id == request_ids]  # type: ignore[attr-defined]

    def shutdown(self) -> None: ...


def request(name: str) -> SimpleNamespace:
    return SimpleNamespace(
        request_id=name,
        prompt_token_ids=list(range(8)),
        num_prompt_tokens=8,
        num_computed_tokens=9,
        sampling_params=SamplingParams(),
        lora_request=None,
        priority=0,
        cache_salt=None,
    )


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> HeardTap:
    """The only tap, of every scheduler."""
    heard = HeardTap()

    def step_teller(scheduler: object) -> StepTeller:
        return StepTeller(heard, scheduler, 0)

    monkeypatch.setattr(taps, "step_teller", step_teller)
    return heard


def test_plan_that_runs_ahead_gets_its_own_result(tap: HeardTap) -> None:
    """Results belong to the plans that they come with, not to the latest."""
    first = plan({"a-0": 8}, new={"a-0": 0})
    second = plan({"a-0": 1}, cached={"a-0": 8})
    scheduler = telling(Scheduler)([first, second])
    scheduler.add_request(request("a-0"))
    scheduler.schedule()
    scheduler.schedule()
    scheduler.update_from_output(first, [EngineCoreOutput("a-0", [5])])
    scheduler.update_from_output(second, [EngineCoreOutput("a-0", [6], LENGTH)])
    scheduler.has_requests()

    number = number_of("a-0")
    steps = [(made.step, result.tokens) for made, result in tap.results]
    assert steps == [(1, {number: [5]}), (2, {number: [6]})]
    works = [each.work for each in tap.plans]
    assert [(each.prefill_tokens, each.decode_tokens) for each in works] == [
        (8, 0),
        (0, 1),
    ]
    (add,) = tap.commands
    assert isinstance(add, Add)
    assert add.request.facts.client_id == external_id("a-0") == "a"
    events = tap.outputs[0].events
    assert [each.request_id for each in events.queued] == [number]
    assert [each.request_id for each in events.scheduled] == [number]
    assert [each.reason for each in tap.outputs[1].events.finished] == ["length"]
    assert tap.outputs[1].stats.kv_blocks_used == 3


def test_preemption_and_resumption_count_what_is_computed_again(tap: HeardTap) -> None:
    """Blocks are lost when the request is preempted, in the middle of a plan."""
    victim = request("a-0")
    plans = [
        plan({"a-0": 8}, new={"a-0": 0}),
        plan({"b-0": 8}, new={"b-0": 4}, preempts=(victim,)),
        plan({"a-0": 5}, cached={"a-0": 4}, resumed=("a-0",)),
    ]
    scheduler = telling(Scheduler)(plans)
    for each in (victim, request("b-0")):
        scheduler.add_request(each)
    for made in plans:
        scheduler.schedule()
        scheduler.update_from_output(made, [])
    scheduler.has_requests()

    lost = tap.outputs[1].events.preempted[0]
    again = tap.outputs[2].events.scheduled[0]
    assert (lost.computed_tokens, lost.cause) == (9, "no_free_blocks")
    assert (again.is_resumed, again.recomputed_tokens) == (True, 5)
    (resumed,) = tap.plans[2].admitted
    assert (resumed.num_computed_tokens, resumed.block_ids) == (4, [3])
    assert tap.outputs[1].events.scheduled[0].local_cached_tokens == 4


@pytest.mark.parametrize("backend", ["mp", "uni"])
def test_a_step_waits_for_nothing_that_is_told(
    tap: HeardTap, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once workers compute; a plan at once, if they are no processes."""
    monkeypatch.setattr(scheduling, "GATHER_NS", 0)
    first = plan({"a-0": 8}, new={"a-0": 0})
    second = plan({"a-0": 1}, cached={"a-0": 8})
    scheduler = telling(Scheduler)([first, second])
    scheduler.vllm_config.parallel_config.distributed_executor_backend = backend
    scheduler._hookline = Guarded(scheduler)
    scheduler.add_request(request("a-0"))

    def told() -> tuple[int, int]:
        return len(tap.plans), len(tap.outputs)

    scheduler.schedule()
    planned = told()
    scheduler.get_grammar_bitmask(first)
    computing = told()
    scheduler.update_from_output(first, [EngineCoreOutput("a-0", [5])])
    updated = told()
    scheduler.schedule()
    scheduler.get_grammar_bitmask(second)
    scheduler.update_from_output(second, [EngineCoreOutput("a-0", [6], LENGTH)])
    busy = told()
    scheduler.has_requests()

    assert planned == (int(backend == "uni"), 0)
    assert (computing, updated, busy, told()) == ((1, 0), (1, 0), (2, 1), (2, 2))
    ends = [each.record.ended_at for each in tap.outputs if each.record is not None]
    assert ends == [each.at for each in tap.outputs]


def test_short_steps_are_told_together_and_a_plan_stays_open(
    tap: HeardTap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If workers hang, their plan or one before it is known to have no result."""
    monkeypatch.setattr(scheduling, "GATHER_NS", 1 << 60)
    plans = [plan({"a-0": 8}, new={"a-0": 0})]
    plans += [plan({"a-0": 1}, cached={"a-0": 8 + n}) for n in range(3)]
    scheduler = telling(Scheduler)(list(plans))
    scheduler.add_request(request("a-0"))
    told = []
    for made in plans:
        scheduler.schedule()
        scheduler.get_grammar_bitmask(made)
        told.append((len(tap.plans), len(tap.outputs)))
        scheduler.update_from_output(made, [EngineCoreOutput("a-0", [5])])
        scheduler._hookline._caught_up_at = -(1 << 61) if made is plans[1] else 0
    scheduler.has_requests()

    assert told == [(0, 0), (0, 0), (3, 2), (3, 2)]
    assert (len(tap.plans), len(tap.outputs)) == (4, 4)
    spans = [
        (each.record.scheduled_at, each.record.ended_at)
        for each in tap.outputs
        if each.record is not None
    ]
    assert spans == sorted(spans)
    assert all(planned <= ended for planned, ended in spans)


def test_request_ended_from_outside_ends_once(tap: HeardTap) -> None:
    """vLLM may finish it twice for one abort."""
    scheduler = telling(Scheduler)([])
    scheduler.add_request(request("a-0"))
    scheduler.finish_requests("a-0", None)
    scheduler.finish_requests("a-0", None)
    scheduler.shutdown()

    (output,) = tap.outputs
    assert [each.reason for each in output.events.finished] == ["abort"]
    assert tap.is_closed


def test_choice_is_subclassed_and_a_failure_ends_only_the_steps(tap: HeardTap) -> None:
    """What vLLM has chosen goes on, whatever a plan looks like."""

    class SchedulerConfig:
        def get_scheduler_cls(self) -> type:
            return Scheduler

    wrap_choice(SchedulerConfig)
    strange = SimpleNamespace(num_scheduled_tokens={"a": 1}, preempts=())
    chosen = SchedulerConfig().get_scheduler_cls()
    scheduler = chosen([strange, strange])

    assert issubclass(chosen, Scheduler)
    assert chosen.__name__ == "Scheduler"
    assert scheduler.schedule() is scheduler.schedule()
    assert tap.plans == []
