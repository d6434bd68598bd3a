"""Requests that are not ready are set aside, counted, and delay no others."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import WAIT, EngineCore
from hookline.engine.scheduler.readiness import Readiness
from hookline.events import Finished, StepOutput
from hookline.finish_cause import Aborted, Failed
from hookline.request import Request
from hookline.stats.scheduler_stats import Residue
from hookline_testing.connected_core import connected_core
from hookline_testing.connectors import DictStore
from hookline_testing.essential import examples
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)

Ids = Sequence[int]


class ScriptedGate:
    """Closed for some request ids until a test opens it for them."""

    name = "grammar"
    param: str | None = None
    is_pending = False

    def __init__(self, *closed: int, timeout_ns: int | None = None) -> None:
        self.timeout_ns = timeout_ns
        self.waiting: dict[int, Request] = {}
        self.cancelled: list[int] = []
        self._closed = set(closed)
        self._ready: list[Readiness] = []

    def is_open(self, request: Request) -> bool:
        if request.request_id in self._closed:
            self.waiting[request.request_id] = request
            return False
        return True

    def take_ready(self) -> Sequence[Readiness]:
        ready, self._ready = self._ready, []
        return ready

    def cancel(self, request: Request) -> None:
        self.cancelled.append(request.request_id)
        self.waiting.pop(request.request_id, None)

    def close(self) -> None:
        """There is nothing to end."""

    def open_for(self, request_id: int, error: str = "") -> None:
        self._closed.discard(request_id)
        if (request := self.waiting.pop(request_id, None)) is not None:
            cause = Failed(error) if error else None
            self._ready.append(Readiness(request, cause))

    def close_for(self, request_id: int) -> None:
        self._closed.add(request_id)


def gated_core(
    *gates: ScriptedGate, max_num_seqs: int = 1, policy: Policy = Policy.FCFS
) -> EngineCore:
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs, max_num_batched_tokens=16, policy=policy
    )
    return simulated_core(scheduler=scheduler, gates=gates)


def ended(outputs: Sequence[StepOutput]) -> list[Finished]:
    return [event for output in outputs for event in output.events.finished]


def admitted(outputs: Sequence[StepOutput]) -> list[int]:
    return [event.request_id for output in outputs for event in output.events.scheduled]


def run_until_wait(core: EngineCore) -> list[StepOutput]:
    outputs = []
    while core.has_work and (output := core.step()).cause != WAIT:
        outputs.append(output)
    return outputs


def test_a_gate_that_never_opens_delays_no_other_request() -> None:
    """Those behind it run to their ends; it is counted apart, and can be aborted."""
    gate = ScriptedGate(1)
    core = gated_core(gate)
    for request_id in (1, 2, 3):
        core.add(engine_request(request_id, [5, 6], 2))

    before = core.report("test").stats
    outputs = run_until_wait(core)
    after = core.report("test").stats
    core.finish([1], Aborted("gone"))
    end = core.report("test")

    assert (before.waiting, before.held.get("grammar", 0)) == (2, 1)
    assert [event.request_id for event in ended(outputs)] == [2, 3]
    assert (after.waiting, after.held.get("grammar", 0), after.running) == (0, 1, 0)
    assert after.oldest_waiting_at == 0
    assert after.totals.residue == Residue()
    assert gate.cancelled == [1]
    assert [event.cause for event in end.events.finished] == [Aborted("gone")]
    assert (end.stats.held.get("grammar", 0), end.stats.totals.residue) == (
        0,
        Residue(),
    )
    assert end.stats.oldest_waiting_at is None
    assert not core.has_work


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(Policy.FCFS, [1, 2, 3, 4]), (Policy.PRIORITY, [4, 2, 3, 1])],
)
def test_ready_requests_take_their_old_places(policy: Policy, expected: Ids) -> None:
    """However the gates open: by arrival, or by priority and then arrival."""
    gate = ScriptedGate(1, 2, 4)
    core = gated_core(gate, policy=policy)
    for request_id, priority in ((1, 9), (2, 3), (3, 3), (4, 1)):
        core.add(engine_request(request_id, [5, 6], 2, priority=priority))

    for request_id in (4, 1, 2):
        gate.open_for(request_id)
    outputs = run_to_end(core)

    assert admitted(outputs) == expected


def test_a_request_passes_every_gate() -> None:
    """It waits at one after the other, under the status of each."""
    first, second = ScriptedGate(1), ScriptedGate(1)
    core = gated_core(first, second)
    core.add(engine_request(1, [5, 6], 2))

    first.open_for(1)
    run_until_wait(core)
    held = core.report("test").stats.held.get("grammar", 0)
    second.open_for(1)
    outputs = run_to_end(core)

    assert held == 1
    assert admitted(outputs) == [1]


def test_a_gate_that_closes_again_is_seen_at_admission() -> None:
    """A queued request whose gate has closed steps aside when its turn comes."""
    gate = ScriptedGate()
    core = gated_core(gate)
    for request_id in (1, 2, 3):
        core.add(engine_request(request_id, [5, 6], 2))
    gate.close_for(2)

    outputs = run_until_wait(core)
    gate.open_for(2)
    outputs += run_to_end(core)

    assert admitted(outputs) == [1, 3, 2]


def test_a_gate_can_fail_a_request() -> None:
    """It ends with the gate's error, and the others go on."""
    gate = ScriptedGate(1)
    core = gated_core(gate)
    core.add(engine_request(1, [5, 6], 2))
    core.add(engine_request(2, [5, 6], 2))

    gate.open_for(1, error="the grammar is malformed")
    outputs = run_to_end(core)

    causes = {event.request_id: event.cause for event in ended(outputs)}
    assert causes[1] == Failed("the grammar is malformed")
    assert len(tokens_of(outputs)[2]) == 2
    assert core.report("test").stats.totals.residue == Residue()


def test_waiting_too_long_is_an_error() -> None:
    """Each request has the gate's time from the moment that it stood aside."""
    gate = ScriptedGate(1, 2, timeout_ns=5 * NANOSECONDS)
    core = gated_core(gate)
    assert isinstance(core.clock, VirtualClock)
    core.add(engine_request(1, [5, 6], 2))
    core.clock.sleep(3)
    core.add(engine_request(2, [5, 6], 2))

    core.clock.sleep(2)
    core.step()
    first = core.report("test")
    core.clock.sleep(3)
    core.step()
    second = core.report("test")

    assert gate.cancelled == [1, 2]
    assert (
        first.stats.held.get("grammar", 0),
        second.stats.held.get("grammar", 0),
    ) == (1, 0)
    assert not core.has_work


def test_preempted_requests_may_have_to_wait_again() -> None:
    """One whose gate closed while it ran stands aside as preempted, and resumes."""
    gate = ScriptedGate()
    core = simulated_core(
        cache=CacheConfig(block_size=1, num_kv_blocks=16, enable_prefix_caching=False),
        max_model_len=16,
        gates=(gate,),
    )
    core.add(engine_request(1, [5] * 4, 10))
    core.add(engine_request(2, [6] * 4, 10))
    outputs = []
    while not (output := core.step()).events.preempted:
        outputs.append(output)
    gate.close_for(2)

    outputs += [output, *run_until_wait(core)]
    held = core.report("test").stats
    gate.open_for(2)
    outputs += run_to_end(core)

    assert held.held.get("grammar", 0) == 1
    assert {key: len(each) for key, each in tokens_of(outputs).items()} == {
        1: 10,
        2: 10,
    }
    assert [
        event.is_resumed for output in outputs for event in output.events.scheduled
    ] == [
        False,
        False,
        True,
    ]


def test_waiting_for_kv_is_one_gate_of_several() -> None:
    """The same counts and the same end, with the status of remote KV."""
    store = DictStore(is_async=True, delay_seconds=0.02)
    prompt = list(range(3, 24))
    filling = connected_core(store)
    filling.core.add(engine_request(1, prompt, 1))
    filling.run()
    engine = connected_core(store)
    engine.core.add(engine_request(1, prompt, 1))

    engine.step()
    held = engine.core.report("test").stats
    engine.core.finish([1], Aborted("gone"))
    engine.run()

    assert (held.waiting, held.held.get("remote_kv", 0)) == (0, 1)
    stats = engine.core.report("test").stats
    assert (stats.held.get("remote_kv", 0), stats.kv_blocks_used) == (0, 0)
    assert stats.totals.residue == Residue()


@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from(Policy),
    is_caching=st.booleans(),
    lead=st.booleans(),
    num_blocks=st.sampled_from([24, 64]),
)
@settings(max_examples=examples(40), deadline=None)
def test_laws_hold_whatever_gates_do(
    seed: int, policy: Policy, num_blocks: int, *, is_caching: bool, lead: bool
) -> None:
    """Every request ends once, nothing is left, and open requests have their tokens."""
    source = random.Random(seed)  # noqa: S311 - a test
    gate = ScriptedGate(*range(1, 31, 2))
    core = simulated_core(
        cache=CacheConfig(
            block_size=1, num_kv_blocks=num_blocks, enable_prefix_caching=is_caching
        ),
        scheduler=SchedulerConfig(
            max_num_seqs=4,
            max_num_batched_tokens=16,
            policy=policy,
            async_scheduling=lead,
        ),
        max_model_len=24,
        gates=(gate,),
    )
    outputs: list[StepOutput] = []
    for request_id in range(1, 31):
        prompt = [source.choice((5, 6))] * source.randint(1, 10)
        priority = source.randrange(3)
        core.add(engine_request(request_id, prompt, 4, priority=priority))
        act, other = source.random(), source.randint(1, 30)
        if act < 0.4:
            gate.open_for(other)
        elif act < 0.5:
            gate.close_for(other)
        elif act < 0.6:
            core.finish([other], Aborted("gone"))
        outputs.append(core.step())
        state = core.report("test")
        outputs.append(state)
        assert state.stats.totals.residue == Residue()
        assert state.stats.held.get("grammar", 0) == len(gate.waiting)
    for request_id in range(1, 31):
        gate.open_for(request_id)
    outputs += run_to_end(core)

    stats = core.report("test").stats
    causes = {event.request_id: event.cause for event in ended(outputs)}
    assert sorted(event.request_id for event in ended(outputs)) == list(range(1, 31))
    assert (stats.totals.residue, stats.kv_blocks_used) == (Residue(), 0)
    for request_id, token_ids in tokens_of(outputs).items():
        if causes[request_id] != Aborted("gone"):
            assert 1 <= len(token_ids) <= 4
