"""How requests are divided among the batches that a pipeline computes at once."""

import pytest

from hookline.clock import NANOSECONDS
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.worker.executor import DeferredStep, Executor
from hookline.events import StepOutput, StepRecord
from hookline.finish_cause import Aborted
from hookline.step import StepPlan, StepResult
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)
from hookline_testing.wrapped_executor import WrappedExecutor

BY_REQUEST = SimulationConfig(
    step_seconds=0.0, prefill_token_seconds=0.001, decode_request_seconds=0.01
)
"""Half of the requests take half of the time."""


class Watched(WrappedExecutor):
    """Keeps the requests of the steps in flight, and looks at each new plan.

    Attributes:
        most_in_flight: Largest number of steps in flight.
    """

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self.most_in_flight = 0
        self._sampling: list[set[int]] = []
        self._missing: dict[int, int] = {}

    def start(self, plan: StepPlan) -> DeferredStep:
        for admitted in plan.admitted:
            tokens = len(admitted.token_ids) - admitted.num_computed_tokens
            self._missing[admitted.request_id] = tokens
        samples = set()
        for request_id, count in zip(plan.request_ids, plan.num_tokens, strict=True):
            for others in self._sampling:
                assert request_id not in others, "its newest token is not known"
            self._missing[request_id] -= count
            if self._missing[request_id] <= 0:
                samples.add(request_id)
                self._missing[request_id] = 1
        self._sampling.append(samples)
        self.most_in_flight = max(self.most_in_flight, len(self._sampling))
        step = self._inner.start(plan)

        def result(_plan: StepPlan) -> StepResult:
            self._sampling.pop(0)
            return step.result()

        return DeferredStep(result, plan)


def seconds_for(
    stages: int, *, requests: int = 48, overlaps: bool = False, blocks: int = 1024
) -> float:
    """Virtual time in which a pipeline computes that many requests."""
    core = simulated_core(
        stages=stages,
        simulation=BY_REQUEST,
        scheduler=SchedulerConfig(max_num_seqs=16, async_scheduling=overlaps),
        cache=CacheConfig(num_kv_blocks=blocks),
        max_model_len=128,
        wrap=Watched,
    )
    for request_id in range(requests):
        core.add(engine_request(request_id, [3 + request_id] * 16, 48))
    run_to_end(core)
    return core.clock.now() / NANOSECONDS


def records_of(outputs: list[StepOutput]) -> list[StepRecord]:
    return [each.record for each in outputs if each.record is not None]


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("stages", [2, 4])
def test_stages_compute_at_the_same_time(stages: int, *, overlaps: bool) -> None:
    """P stages, each with 1/P of the layers, take little more than 1/P of the time."""
    assert seconds_for(stages, overlaps=overlaps) < 1.1 * seconds_for(1) / stages


def test_a_full_cache_keeps_the_pipeline_full() -> None:
    """Requests that cannot be admitted count for no batch, and nobody is left over."""
    blocks = 32  # for half of the requests that may run

    assert seconds_for(4, blocks=blocks) < 1.3 * seconds_for(1, blocks=blocks) / 4


def test_one_request_takes_the_time_of_one_stage() -> None:
    """Its tokens depend on each other, so that a pipeline gains nothing for it."""
    assert seconds_for(4, requests=1) == seconds_for(1, requests=1)


@pytest.mark.parametrize(("stages", "parts"), [(2, 1.5), (4, 1.75)])
def test_chunks_of_a_prompt_follow_each_other(stages: int, parts: float) -> None:
    """A stage computes a chunk while the next stage computes the one before it.

    With as many equal chunks as stages the prompt takes 2P - 1 parts of 1/P².
    """
    core = simulated_core(
        stages=stages,
        simulation=BY_REQUEST,
        max_model_len=4096,
        cache=CacheConfig(num_kv_blocks=512),
    )
    core.add(engine_request(1, [3] * 4000, 1))

    records = records_of(run_to_end(core))

    whole = 4.0
    assert core.clock.now() / NANOSECONDS == pytest.approx(whole * parts / stages, 0.02)
    assert sum(each.work.prefill_tokens for each in records) == 4000


def test_batches_in_flight_have_equal_shares() -> None:
    """Ten requests make batches of five, however they arrived."""
    core = simulated_core(stages=2, simulation=BY_REQUEST, max_model_len=128)
    for request_id in range(3):
        core.add(engine_request(request_id, [3, 4, 5], 40))
    outputs = [core.step() for _ in range(8)]
    for request_id in range(3, 10):
        core.add(engine_request(request_id, [3, 4, 5], 20))
    outputs += [core.step() for _ in range(20)]

    sizes = [len(each.request_tokens) for each in records_of(outputs)][-10:]

    assert sizes == [5] * 10


def test_all_requests_advance_alike() -> None:
    """However they end and arrive, nobody waits for more than a round of batches."""
    core = simulated_core(
        stages=3, simulation=BY_REQUEST, max_model_len=128, wrap=Watched
    )
    for request_id in range(20):
        core.add(engine_request(request_id, [3, 4, 5], 5 + 4 * request_id))

    last: dict[int, int] = {}
    gaps = []
    for number, record in enumerate(records_of(run_to_end(core))):
        for request_id, _ in record.request_tokens:
            gaps.append(number - last.get(request_id, number))
            last[request_id] = number

    assert max(gaps) <= 6


def test_number_of_batches_in_flight_is_that_of_the_stages() -> None:
    """Asynchronous scheduling adds one, which is planned while all stages compute."""
    found = []
    for overlaps in (False, True):
        watched: list[Watched] = []

        def wrap(inner: Executor, kept: list[Watched] = watched) -> Executor:
            kept.append(Watched(inner))
            return kept[0]

        core = simulated_core(
            stages=2,
            scheduler=SchedulerConfig(async_scheduling=overlaps),
            wrap=wrap,
        )
        for request_id in range(12):
            core.add(engine_request(request_id, [3, 4, 5], 12))
        run_to_end(core)
        found.append(watched[0].most_in_flight)

    assert found == [2, 3]


def test_an_aborted_request_in_flight_frees_its_place() -> None:
    """Its token is dropped when it comes; the others' texts are as if it were alone."""
    core = simulated_core(stages=2, wrap=Watched)
    for request_id in range(4):
        core.add(engine_request(request_id, [3, request_id], 8))
    outputs = [core.step() for _ in range(3)]
    core.finish([0, 3], Aborted("the test"))
    outputs += run_to_end(core)

    alone = simulated_core()
    alone.add(engine_request(1, [3, 1], 8))
    stats = core.report("end").stats
    assert tokens_of(outputs)[1] == tokens_of(run_to_end(alone))[1]
    assert stats.totals.discarded_tokens > 0
    assert (
        stats.kv_blocks_used,
        stats.totals.residue.tokens,
        stats.totals.residue.blocks,
    ) == (0,) * 3
