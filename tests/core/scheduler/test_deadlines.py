"""Deadlines: a request ends in time, whatever it is waiting for."""

import random

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import SleepMode
from hookline.engine.engine_core import EngineCore
from hookline.engine.scheduler.readiness import Readiness
from hookline.finish_cause import Aborted, TimedOut
from hookline.request import GenerateRequest, Request
from hookline.stats.scheduler_stats import Residue
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import engine_request, simulated_core, tokens_of


def timed(inner: GenerateRequest, seconds: float) -> GenerateRequest:
    return msgspec.structs.replace(inner, timeout_seconds=seconds)


def run_until_idle(core: EngineCore) -> dict[int, object]:
    """Runs to the end; returns each request's finish cause."""
    causes: dict[int, object] = {}
    while core.has_work:
        causes |= {each.request_id: each.cause for each in core.step().events.finished}
    return causes


class NeverGate:
    """A gate that stays closed."""

    name = "grammar"
    param: str | None = None
    is_pending = False
    timeout_ns = None

    def __init__(self) -> None:
        self.cancelled: list[int] = []

    def is_open(self, request: Request) -> bool:
        return request.request_id != 1

    def take_ready(self) -> list[Readiness]:
        return []

    def cancel(self, request: Request) -> None:
        self.cancelled.append(request.request_id)

    def close(self) -> None:
        """There is nothing to end."""


def test_a_running_request_keeps_the_tokens_of_its_time() -> None:
    """Steps take a second, so a deadline of 3.5 s leaves room for four tokens."""
    core = simulated_core()
    core.add(timed(engine_request(1, [3, 4], 30), 3.5))

    outputs = [core.step() for _ in range(5)]

    assert len(tokens_of(outputs)[1]) == 4
    assert [each.cause for each in outputs[-1].events.finished] == [TimedOut()]
    stats = core.report("check").stats
    assert (stats.kv_blocks_used, stats.totals.residue) == (0, Residue())
    assert stats.totals.finished == {"timeout": 1}


def test_a_waiting_request_ends_without_a_token() -> None:
    """It ends while the request ahead of it still runs, which goes on."""
    core = simulated_core(scheduler=SchedulerConfig(max_num_seqs=1))
    core.add(engine_request(1, [3], 10))
    core.add(timed(engine_request(2, [4], 10), 2.0))

    outputs = [core.step() for _ in range(10)]

    ends = {
        each.request_id: each for output in outputs for each in output.events.finished
    }
    assert ends[2].cause == TimedOut()
    assert ends[2].output_tokens == 0
    assert len(tokens_of(outputs)[1]) == 10


def test_a_request_behind_a_closed_gate_ends() -> None:
    """The gate is asked to forget it."""
    gate = NeverGate()
    core = simulated_core(gates=[gate])
    core.add(timed(engine_request(1, [3], 10), 2.0))
    core.add(engine_request(2, [4], 5))

    causes = run_until_idle(core)

    assert causes[1] == TimedOut()
    assert gate.cancelled == [1]


def test_reading_the_state_ends_no_request() -> None:
    """Only a step or `expire` does; and reading it takes no event from an output."""
    clock = VirtualClock()
    core = simulated_core(clock=clock)
    core.add(timed(engine_request(1, [3], 10), 2.0))
    clock.sleep(2.5)

    read = [core.stats for _ in range(2)]
    reported = core.report("check")
    core.expire()

    assert read[0] == read[1] == reported.stats
    assert reported.stats.waiting == 1
    assert [event.request_id for event in reported.events.queued] == [1]
    assert reported.events.finished == []
    assert [each.cause for each in core.report("check").events.finished] == [TimedOut()]


def test_a_sleeping_engine_ends_requests_with_its_next_state() -> None:
    """It plans no steps, but it publishes its state with every heartbeat."""
    clock = VirtualClock()
    core = simulated_core(clock=clock)
    core.hold(SleepMode.KEEP)
    core.add(timed(engine_request(1, [3], 10), 2.0))
    core.expire()
    early = core.report("heartbeat").events.finished
    clock.sleep(2.5)

    core.expire()
    late = core.report("heartbeat").events.finished

    assert (early, [each.cause for each in late]) == ([], [TimedOut()])
    assert not core.has_work


def test_a_deadline_that_has_passed_on_arrival_costs_no_step() -> None:
    """Nothing is computed for it."""
    core = simulated_core()
    core.add(timed(engine_request(1, [3], 10), 0.0))

    output = core.step()

    assert (output.record, [each.cause for each in output.events.finished]) == (
        None,
        [TimedOut()],
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_random_deadlines_leave_nothing_behind(is_async: bool) -> None:
    """Requests end by length, abort or deadline, none after its deadline and a step."""
    source = random.Random(11)  # noqa: S311 - no secret
    clock = VirtualClock()
    core = simulated_core(
        clock=clock,
        cache=CacheConfig(block_size=4, num_kv_blocks=48),
        scheduler=SchedulerConfig(max_num_seqs=6, async_scheduling=is_async),
        simulation=SimulationConfig(step_seconds=1.0),
    )
    due: dict[int, float] = {}
    ended: dict[int, tuple[object, float]] = {}
    for request_id in range(1, 400):
        seconds = source.choice([0.0, 5.0, 20.0, 100.0])
        inner = engine_request(request_id, [3] * source.randint(1, 40), 12)
        core.add(timed(inner, seconds))
        due[request_id] = clock.now() / 1e9 + seconds
        if source.random() < 0.1:
            core.finish([source.randint(1, request_id)], Aborted("the test"))
        for _ in range(source.randint(0, 4)):
            if core.has_work:
                for each in core.step().events.finished:
                    ended[each.request_id] = (each.cause, each.at / 1e9)
    while core.has_work:
        for each in core.step().events.finished:
            ended[each.request_id] = (each.cause, each.at / 1e9)

    assert set(ended) == set(due)
    assert any(cause == TimedOut() for cause, _ in ended.values())
    for request_id, (cause, at) in ended.items():
        assert at <= due[request_id] + 2.5
        assert cause != TimedOut() or at >= due[request_id]
    assert core.report("check").stats.totals.residue == Residue()
