"""Accounts of requests in staged cases: right causes, and not a nanosecond missing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import SchedulerConfig
from hookline.config.scheduler import Policy
from hookline.engine.commands import Call, Finish, Sleep, WakeUp
from hookline.engine.scheduler.readiness import Readiness
from hookline.finish_cause import Aborted
from hookline.request import Request
from hookline.stats.step_work import Execution, ThreadUse
from hookline.step import SleepLevel, StepPlan, StepResult
from hookline_insight import Account, Explainer
from hookline_insight.account import Cause
from hookline_insight.wording import Words
from hookline_metrics.slo import Phase

from .staged_engine import DECODE, PREFILL, START, STEP, Stage

Case = tuple[Stage, Phase | None, Cause, float]
"""A stage, and in what phase and for what cause request 1 spent how many seconds."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


class Gate:
    """Closed for request 1 until a case opens it."""

    name, param, timeout_ns, is_pending = "grammar", None, None, False

    def __init__(self) -> None:
        self._is_closed = True
        self._held: list[Request] = []
        self._ready: list[Readiness] = []

    def is_open(self, request: Request) -> bool:
        if request.request_id != 1 or not self._is_closed:
            return True
        self._held.append(request)
        return False

    def take_ready(self) -> Sequence[Readiness]:
        ready, self._ready = self._ready, []
        return ready

    def cancel(self, request: Request) -> None:
        self._held.remove(request)

    def close(self) -> None:
        """There is nothing to end."""

    def open(self) -> None:
        """Lets the request go on."""
        self._is_closed = False
        self._ready = [Readiness(each, None) for each in self._held]


def options(**given: object) -> SchedulerConfig:
    return SchedulerConfig(**given)  # type: ignore[arg-type]


def alone() -> Case:
    return Stage().add(0, 1, 20, 30), Phase.DECODE, Cause.FIXED, 29 * STEP


def long_prompt() -> Case:
    return Stage().add(0, 1, 2000, 2), Phase.PREFILL, Cause.OWN, 2000 * PREFILL


def many_neighbours() -> Case:
    stage = Stage()
    for number in range(2, 22):
        stage.add(0, number, 16, 80)
    stage.add(0.3, 1, 16, 41)
    return stage, Phase.DECODE, Cause.OTHERS_TOKENS, 40 * 20 * DECODE


def neighbours_prompt() -> Case:
    stage = Stage().add(0, 1, 16, 10).add(0.05, 2, 1800, 2)
    return stage, Phase.DECODE, Cause.OTHERS_PROMPTS, 1800 * PREFILL


def batch_slots() -> Case:
    stage = Stage(options(max_num_seqs=2)).add(0, 2, 16, 50).add(0, 3, 16, 50)
    # Three commands are taken at once, and the third has no place for 50 steps.
    waits = 50 * STEP + 49 * 2 * DECODE + 32 * PREFILL
    return stage.add(0, 1, 16, 5), Phase.QUEUE, Cause.BATCH_SLOTS, waits


def kv_blocks() -> Case:
    stage = Stage(blocks=32).add(0, 2, 16 * 20, 60)
    waits = 60 * STEP + 59 * DECODE + 320 * PREFILL
    return stage.add(0, 1, 16 * 15, 5), Phase.QUEUE, Cause.KV_BLOCKS, waits


def token_budget() -> Case:
    stage = Stage(options(max_num_seqs=8, max_num_batched_tokens=64)).add(0, 2, 640, 1)
    waits = 10 * STEP + 640 * PREFILL
    return stage.add(0, 1, 64, 1), Phase.QUEUE, Cause.TOKEN_BUDGET, waits


def gate() -> Case:
    closed = Gate()
    stage = Stage(gates=[closed]).add(0, 1, 16, 3).add(0, 2, 16, 100)
    return stage.at(0.4, closed.open), Phase.QUEUE, Cause.GATE, 0.4


def sleep() -> Case:
    stage = Stage().at(0, Call(0, 1, Sleep(SleepLevel.KV_CACHE))).add(0.5, 1, 16, 2)
    return stage.at(1.5, Call(0, 2, WakeUp())), Phase.QUEUE, Cause.SLEEP, 1.0


def preempted() -> Case:
    # Both grow until the blocks are too few, and the later one loses its own.
    stage = Stage(blocks=32).add(0, 2, 16 * 10, 240).add(0.05, 1, 16 * 10, 120)
    return stage, Phase.PREEMPTED, Cause.KV_BLOCKS, 0.0


def recomputed() -> Case:
    stage = Stage(blocks=128).add(0, 2, 640, 800).add(0, 1, 1100, 200)
    return stage, Phase.DECODE, Cause.RECOMPUTED, 0.0


def preempted_by_priority() -> Case:
    stage = Stage(options(policy=Policy.PRIORITY), blocks=32)
    # It came first, and loses its blocks nevertheless.
    stage.add(0, 1, 16 * 10, 240, priority=5).add(0.1, 2, 16 * 10, 200, priority=0)
    return stage, Phase.PREEMPTED, Cause.KV_BLOCKS, 0.0


def without_cpu() -> Case:
    def throttle(plan: StepPlan, result: StepResult, clock: VirtualClock) -> StepResult:
        if plan.request_ids != [1]:
            return result
        clock.sleep(0.08)
        use = ThreadUse(4, 0, 1, 0, 80_000_000)
        return replace(result, execution=Execution(thread_use=use))

    stage = Stage(change=throttle).add(0, 1, 16, 5)
    return stage, Phase.DECODE, Cause.CPU, 4 * 0.08


def slow_step() -> Case:
    stalled: list[int] = []

    def stall(plan: StepPlan, result: StepResult, clock: VirtualClock) -> StepResult:
        if 1 in plan.request_ids and clock.now() > START + NANOSECONDS // 10:
            clock.sleep(0.0 if stalled else 2.0)
            stalled.append(plan.step)
        return result

    stage = Stage(change=stall).add(0, 1, 16, 30)
    return stage, Phase.DECODE, Cause.UNEXPLAINED, 2.0


def pipeline() -> Case:
    stage = Stage(stages=2).add(0, 1, 16, 20).add(0, 2, 16, 20)
    return stage, Phase.DECODE, Cause.FIXED, 0.0


def asynchronous() -> Case:
    stage = Stage(options(async_scheduling=True)).add(0, 2, 16, 40)
    return stage.add(0.1, 1, 16, 20), Phase.DECODE, Cause.FIXED, 19 * STEP


def comes_in_a_step() -> Case:
    # A step of 1.5 s is in flight and the next one planned before the request comes.
    stage = Stage(options(async_scheduling=True)).add(0, 2, 2000, 30)
    return stage.add(0.1, 1, 16, 2), Phase.DECODE, Cause.FIXED, 0.0


def chunks() -> Case:
    # Decodes come first: little of the budget is left for its prompt.
    stage = Stage(options(max_num_seqs=8, max_num_batched_tokens=32)).add(0, 2, 20, 60)
    return stage.add(0.1, 1, 310, 2), Phase.PREFILL, Cause.FIXED, 10 * STEP


def one_token() -> Case:
    return Stage().add(0, 1, 16, 1), Phase.PREFILL, Cause.FIXED, STEP


def aborted_waiting() -> Case:
    stage = Stage(options(max_num_seqs=1)).add(0, 2, 16, 50).add(0, 1, 16, 5)
    stage.at(0.2, Finish([1], Aborted("disconnect")))
    return stage, Phase.QUEUE, Cause.BATCH_SLOTS, 0.2


def aborted_running() -> Case:
    stage = Stage().add(0, 1, 16, 100).at(0.33, Finish([1], Aborted("disconnect")))
    return stage, Phase.DECODE, Cause.FIXED, 0.0


def still_running() -> Case:
    stage = Stage(until=START + NANOSECONDS // 5).add(0, 1, 16, 100)
    return stage, Phase.DECODE, Cause.FIXED, 0.0


def still_waiting() -> Case:
    stage = Stage(options(max_num_seqs=1), until=START + NANOSECONDS // 2)
    stage.add(0, 2, 16, 100).add(0.1, 1, 16, 5)
    return stage, Phase.QUEUE, Cause.BATCH_SLOTS, 0.4


def overwritten() -> Case:
    stage = Stage(ring_bytes=256 * 1024).add(0, 1, 16, 4000)
    return stage, None, Cause.OVERWRITTEN, 0.0


CASES: Sequence[Callable[[], Case]] = (
    *(alone, long_prompt, many_neighbours, neighbours_prompt, batch_slots, kv_blocks),
    *(token_budget, gate, sleep, preempted, recomputed, preempted_by_priority),
    *(without_cpu, slow_step, pipeline, asynchronous, comes_in_a_step, chunks),
    *(one_token, aborted_waiting, aborted_running, still_running, still_waiting),
    overwritten,
)


def latency_of(explainer: Explainer) -> int:
    """Returns the time from request 1's arrival to the output with its end."""
    recording = explainer.recording
    request = recording.requests[1]
    assert request.facts is not None
    ends = [
        state.at
        for state in recording.states
        if state.events and any(end.request_id == 1 for end in state.events.finished)
    ]
    return (ends[0] if ends else explainer.until) - request.facts.at


def seconds_of(account: Account, phase: Phase | None, cause: Cause) -> float:
    found = (p.ns for p in account.parts if (p.phase, p.cause) == (phase, cause))
    return sum(found) / NANOSECONDS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_parts_add_up_to_the_latency(case: Callable[[], Case], folder: Path) -> None:
    """To the nanosecond, without gap or overlap, and the staged cause has its time."""
    stage, phase, cause, seconds = case()

    explainer = stage.play(folder)
    account = explainer.account(1)

    assert explainer.costs.is_fitted
    assert account.latency == latency_of(explainer)
    assert account.residue == 0
    assert all(a.end == b.begin for a, b in pairwise(account.pieces))
    for piece in account.pieces:
        assert sum(share.ns for share in piece.shares) == piece.end - piece.begin
        assert all(share.ns >= 0 for share in piece.shares)
    found = seconds_of(account, phase, cause)
    assert found == pytest.approx(seconds, rel=0.03, abs=STEP) if seconds else found > 0
    assert Words(explainer).sentence(account)
