"""The line fitted to step times, and that no payload leads the signal astray."""

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events import StepRecord
from hookline.payloads import StateChanged, StepFinished
from hookline.request import Slo
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.stats.step_work import StepWork
from hookline_metrics.saturation import Saturation
from hookline_metrics.saturation.capacity import MOST_ERROR, BusySteps, Estimate
from hookline_metrics.saturation.costs import NO_COST, StepCost, StepCosts
from hookline_metrics.saturation.demand import MeanRequest
from hookline_metrics.saturation.signal import MOST
from hookline_testing.payloads import FACTS

TRUE = StepCost(fixed=0.01, decode=0.0005, prefill=0.00002)


def fitted(batches: list[tuple[int, int]], *, pause_each: int = 0) -> StepCost:
    """The line after such (decoding requests, prompt tokens), all timed exactly."""
    costs = StepCosts()
    for number, (decodes, tokens) in enumerate(batches, start=1):
        is_paused = pause_each and number % pause_each == 0
        costs.add(decodes, tokens, TRUE.seconds(decodes, tokens) + is_paused)
        costs.fit()
    return costs.cost


def mixed(count: int) -> list[tuple[int, int]]:
    source = random.Random(3)  # noqa: S311 - no secret
    return [
        (source.randint(0, 64), source.choice([0, 0, 0, 100, 900]))
        for _ in range(count)
    ]


def test_mixed_batches_give_the_true_costs() -> None:
    """Where batches differ, all three costs are found."""
    cost = fitted(mixed(500))

    assert cost.fixed == pytest.approx(TRUE.fixed, rel=0.05)
    assert cost.decode == pytest.approx(TRUE.decode, rel=0.05)
    assert cost.prefill == pytest.approx(TRUE.prefill, rel=0.05)


def busy_steps(noise: float = 0.0) -> BusySteps:
    """The steps of requests of 20 tokens, after mixed ones with so much noise."""
    costs, source = StepCosts(), random.Random(7)  # noqa: S311 - no secret
    for decodes, tokens in mixed(500):
        seconds = TRUE.seconds(decodes, tokens)
        costs.add(decodes, tokens, seconds * (1 + source.uniform(-noise, noise)))
        costs.fit()
    request = MeanRequest(
        prompt=100.0,
        recomputed=0.0,
        decodes=19.0,
        passes=20.0,
        blocks=0.0,
        fresh=1.0,
        yields=1.0,
        counted=100.0,
    )
    return BusySteps(costs, request, places=64.0, is_by_cache=False, budget=512)


def test_concurrency_is_what_objectives_and_places_allow() -> None:
    """The largest number of requests whose steps are as short as they must be."""
    steps = busy_steps()
    of_30 = TRUE.seconds(30 * 19 / 20, 30 * 100 / 20)
    expected = {
        Slo(): None,
        Slo(tpot=of_30): 30,
        Slo(e2e=20 * of_30): 30,
        Slo(ttft=of_30 + 100 * TRUE.prefill): 30,
        Slo(tpot=of_30, e2e=1000.0, ttft=1000.0): 30,
        Slo(tpot=TRUE.fixed): 0,
        Slo(ttft=50 * TRUE.prefill): 0,
        Slo(tpot=1000.0): 64,
    }

    found = {slo: steps.within(slo) for slo in expected}

    for slo, value in expected.items():
        estimate = found[slo]
        assert (None if estimate is None else estimate.value) == (
            value if value is None else pytest.approx(value, rel=0.05)
        )
    assert steps.stability() == Estimate(64.0, 0.0)
    few = dataclasses.replace(steps, budget=90)  # a request takes 6 tokens of a step
    assert few.stability().value == pytest.approx(90 / 5.95)


def test_capacity_is_that_of_full_steps() -> None:
    """64 requests of 20 steps, all in each step."""
    full = TRUE.seconds(64 * 19 / 20, 64 * 100 / 20)

    found = busy_steps().capacity()

    assert found.value == pytest.approx(64 / 20 / full, rel=0.05)


def test_errors_grow_with_noise_and_distance() -> None:
    """Exact steps leave the error of the mean request alone; nothing seen, no idea."""
    exact, noisy = busy_steps(), busy_steps(noise=0.5)

    errors = [each.capacity().error or 0.0 for each in (exact, noisy)]

    assert errors[0] == pytest.approx(0.1, abs=0.02)  # of 100 requests
    assert errors[0] < errors[1] < 0.5
    assert noisy.error(30) < noisy.error(300) < noisy.error(3000)
    costs = StepCosts()
    for _ in range(50):
        costs.add(1, 0, 0.01)
        costs.fit()
    unseen = dataclasses.replace(exact, costs=costs)
    assert unseen.capacity().error == MOST_ERROR


def test_pauses_change_no_slope() -> None:
    """Steps of a second among those of 40 ms scale the line and do not turn it."""
    cost = fitted(mixed(1000), pause_each=100)

    steepness = cost.decode / cost.fixed
    assert steepness == pytest.approx(TRUE.decode / TRUE.fixed, rel=0.3)
    assert cost.seconds(32, 0) < 2 * TRUE.seconds(32, 0)


def test_a_slower_machine_is_noticed_within_half_a_minute() -> None:
    """When all steps take five times as long, the line soon follows."""
    costs = StepCosts()
    for decodes, tokens in mixed(2000):
        costs.add(decodes, tokens, TRUE.seconds(decodes, tokens))
        costs.age(TRUE.seconds(decodes, tokens))
        costs.fit()

    busy = 0.0
    for decodes, tokens in mixed(2000):
        if busy > 30:
            break
        seconds = 5 * TRUE.seconds(decodes, tokens)
        costs.age(seconds)
        costs.add(decodes, tokens, seconds)
        costs.fit()
        busy += seconds

    assert 3.5 < costs.cost.seconds(32, 100) / TRUE.seconds(32, 100) < 5.5


def test_equal_batches_cost_what_they_took() -> None:
    """Where batches never differ, the line still goes through what was seen."""
    cost = fitted([(8, 0)] * 100)

    assert cost.seconds(8, 0) == pytest.approx(TRUE.seconds(8, 0))
    assert cost.prefill == 0.0


def test_costs_are_never_negative() -> None:
    """Steps that get shorter as batches grow are held to be of constant length."""
    costs = StepCosts()
    for decodes in range(1, 50):
        costs.add(decodes, 0, 1 / decodes)

    costs.fit()

    assert costs.cost.decode == 0.0
    assert costs.cost.fixed > 0.0


def test_without_steps_nothing_is_known() -> None:
    """The line is 0 before the first step."""
    costs = StepCosts()

    costs.fit()

    assert costs.cost == NO_COST


counts = st.integers(0, 10) | st.integers(0, 2**63 - 1)
times = st.integers(0, 10**10) | st.integers(0, 2**63 - 1)
schedulers = st.builds(
    SchedulerStats,
    running=counts,
    waiting=counts,
    waiting_tokens=counts,
    kv_blocks=counts,
    kv_blocks_used=counts,
    totals=st.builds(EngineTotals, received=counts, recomputed_tokens=counts),
)
iterations = st.builds(
    IterationStats,
    prompt_tokens_computed=counts,
    prompt_tokens_local=counts,
    first_tokens=st.lists(st.just(FirstToken(seconds=0.1)), max_size=4).map(tuple),
)
records = st.builds(
    StepRecord,
    step=counts,
    engine_index=st.just(0),
    started_at=times,
    scheduled_at=times,
    executed_at=times,
    ended_at=times,
    request_tokens=st.just([]),
    work=st.builds(
        StepWork,
        prefill_requests=counts,
        prefill_tokens=counts,
        decode_requests=counts,
        decode_tokens=counts,
    ),
)
steps = st.builds(
    StepFinished,
    engine_index=st.just(0),
    record=records,
    iteration=iterations,
    scheduler=schedulers,
)
states = st.builds(
    StateChanged,
    engine_index=st.just(0),
    cause=st.sampled_from(["heartbeat", "idle", "abort", "failed"]),
    at=times,
    scheduler=schedulers,
    iteration=iterations,
)


@given(payloads=st.lists(steps | states, max_size=40), at=st.none() | times)
def test_any_payloads_give_a_number_in_bounds(
    payloads: list[StepFinished | StateChanged], at: int | None
) -> None:
    """For any payloads in any order the signal is between 0 and 10."""
    saturation = Saturation(FACTS)

    for payload in payloads:
        if isinstance(payload, StepFinished):
            saturation.step(payload)
        else:
            saturation.state(payload)

        numbers = [saturation.value(at), *saturation.parts().values()]
        assert all(math.isfinite(number) for number in numbers)
        assert all(0.0 <= number <= MOST for number in numbers)
