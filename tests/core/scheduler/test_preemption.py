"""Who loses their blocks when these run out, and what is computed again."""

import pytest

from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.commands import SleepMode
from hookline.engine.engine_core import EngineCore
from hookline.events import Preempted, PreemptionCause, Scheduled, StepOutput
from hookline.finish_cause import Aborted
from hookline.request import FinishReason
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)


def small_core(
    *,
    policy: Policy = Policy.FCFS,
    block_size: int = 1,
    is_caching: bool = False,
    threshold: int | None = None,
    max_num_seqs: int = 4,
) -> EngineCore:
    """A pool of 8 tokens, and requests of up to 8."""
    return simulated_core(
        cache=CacheConfig(
            block_size=block_size,
            num_kv_blocks=8 // block_size,
            enable_prefix_caching=is_caching,
        ),
        scheduler=SchedulerConfig(
            policy=policy,
            max_num_seqs=max_num_seqs,
            long_prefill_token_threshold=threshold,
        ),
        max_model_len=8,
    )


def preemptions(outputs: list[StepOutput]) -> list[Preempted]:
    return [event for output in outputs for event in output.events.preempted]


def admissions(outputs: list[StepOutput]) -> list[Scheduled]:
    return [event for output in outputs for event in output.events.scheduled]


@pytest.mark.parametrize(
    ("policy", "priorities", "victim"),
    [
        (Policy.FCFS, (1, 0), 2),
        (Policy.PRIORITY, (1, 0), 1),
        (Policy.PRIORITY, (0, 1), 2),
        (Policy.PRIORITY, (1, 1), 2),
    ],
)
def test_lowest_priority_latest_request_is_preempted(
    policy: Policy, priorities: tuple[int, int], victim: int
) -> None:
    """The one that would be served last loses its blocks."""
    core = small_core(policy=policy)
    for request_id, priority in enumerate(priorities, start=1):
        core.add(engine_request(request_id, [request_id] * 3, 5, priority=priority))

    outputs = run_to_end(core)

    assert [event.request_id for event in preemptions(outputs)] == [victim]


def test_urgent_late_request_preempts_a_running_one() -> None:
    """Priority counts, not the order in which requests joined the batch."""
    core = small_core(policy=Policy.PRIORITY)
    core.add(engine_request(1, [1] * 3, 5, priority=1))
    core.step()
    core.add(engine_request(2, [2] * 3, 5, priority=0))

    outputs = run_to_end(core)

    assert [event.request_id for event in preemptions(outputs)] == [1]


@pytest.mark.parametrize(
    ("policy", "priorities", "victim", "beneficiary"),
    [
        (Policy.FCFS, (1, 0), 2, 1),
        (Policy.PRIORITY, (0, 1), 2, 1),
        (Policy.PRIORITY, (1, 0), 1, 2),
    ],
)
def test_preemption_names_who_needed_the_blocks(
    policy: Policy, priorities: tuple[int, int], victim: int, beneficiary: int
) -> None:
    """The beneficiary is the request that lacked a block."""
    core = small_core(policy=policy)
    for request_id, priority in enumerate(priorities, start=1):
        core.add(engine_request(request_id, [request_id] * 3, 5, priority=priority))

    (event,) = preemptions(run_to_end(core))

    assert (event.request_id, event.beneficiary_id) == (victim, beneficiary)
    assert event.cause is PreemptionCause.NO_FREE_BLOCKS


def test_request_that_ranks_last_gives_up_its_own_blocks() -> None:
    """It needs a block itself, so that nobody is named as its beneficiary."""
    core = small_core(policy=Policy.PRIORITY)
    core.add(engine_request(1, [1] * 3, 5, priority=1))
    core.step()
    core.step()
    core.add(engine_request(2, [2] * 3, 5, priority=0))

    (event,) = preemptions(run_to_end(core))

    assert (event.request_id, event.beneficiary_id) == (1, None)


def test_sleep_preempts_for_nobody() -> None:
    """What sleep takes from a request is of use to no other, and the cause says so."""
    core = small_core()
    core.add(engine_request(1, [1] * 3, 5))
    core.step()

    core.hold(SleepMode.KEEP)
    (event,) = core.report("sleep").events.preempted

    assert (event.cause, event.beneficiary_id) == (PreemptionCause.SLEEP, None)


def test_preempted_request_takes_its_old_place() -> None:
    """It is resumed before requests that arrived after it."""
    core = small_core(max_num_seqs=2)
    for request_id in (1, 2, 3):
        core.add(engine_request(request_id, [request_id] * 3, 5))

    outputs = run_to_end(core)

    assert [(event.request_id, event.is_resumed) for event in admissions(outputs)][
        :4
    ] == [(1, False), (2, False), (2, True), (3, False)]


def test_step_that_preempts_admits_no_request() -> None:
    """Blocks that were just taken away are not given to a newcomer in that step."""
    core = small_core(policy=Policy.PRIORITY)
    for request_id in (1, 2):
        core.add(engine_request(request_id, [request_id] * 3, 5))
    core.step()
    core.step()
    core.add(engine_request(3, [3], 1, priority=-1))

    outputs = [core.step(), core.step()]

    assert [event.request_id for event in outputs[0].events.preempted] == [2]
    assert outputs[0].events.scheduled == []
    assert [event.request_id for event in outputs[1].events.scheduled] == [3]


def test_output_is_kept_over_a_preemption() -> None:
    """Tokens generated before a preemption are neither lost nor made twice."""
    alone = small_core()
    alone.add(engine_request(2, [2] * 3, 5))
    crowded = small_core()
    for request_id in (1, 2):
        crowded.add(engine_request(request_id, [request_id] * 3, 5))

    expected = tokens_of(run_to_end(alone))[2]
    outputs = run_to_end(crowded)

    assert len(preemptions(outputs)) == 1
    assert tokens_of(outputs)[2] == expected


def test_recomputed_tokens_are_counted_exactly() -> None:
    """What a preempted request had computed is computed, and counted, again."""
    core = small_core()
    for request_id in (1, 2):
        core.add(engine_request(request_id, [request_id] * 3, 5))

    outputs = run_to_end(core)

    assert [event.computed_tokens for event in preemptions(outputs)] == [4]
    assert [event.recomputed_tokens for event in admissions(outputs)] == [0, 0, 4]
    stats = outputs[-1].stats
    assert (stats.totals.computed_tokens, stats.totals.recomputed_tokens) == (
        7 + 7 + 4,
        4,
    )


def test_prefix_hits_on_resume_are_not_recomputed() -> None:
    """Own blocks that survived are found again and count neither as hits nor as new."""
    core = small_core(block_size=2, is_caching=True)
    core.add(engine_request(1, [1] * 3, 3))
    core.add(engine_request(2, [2] * 3, 5))

    outputs = run_to_end(core)

    resumed = admissions(outputs)[-1]
    assert (resumed.request_id, resumed.is_resumed) == (2, True)
    assert (resumed.local_cached_tokens, resumed.recomputed_tokens) == (2, 2)
    stats = outputs[-1].stats
    assert (stats.totals.computed_tokens, stats.totals.recomputed_tokens) == (
        5 + 7 + 2,
        2,
    )
    assert (
        stats.totals.prefix_cache.requests,
        stats.totals.prefix_cache.hit_tokens,
    ) == (2, 0)


def test_resume_in_chunks_counts_only_what_is_done() -> None:
    """The total grows by what was computed again, not by what is still to come."""
    core = small_core(threshold=2)
    for request_id in (1, 2):
        core.add(engine_request(request_id, [request_id] * 3, 5))
    outputs: list[StepOutput] = []
    while not any(event.is_resumed for event in admissions(outputs)):
        outputs.append(core.step())

    before = outputs[-1].stats.totals.recomputed_tokens
    core.finish([2], Aborted("the test"))
    after = core.report("check").stats.totals.recomputed_tokens

    assert admissions(outputs)[-1].recomputed_tokens > 2
    assert before == after == 2


def test_preempted_prefill_starts_over() -> None:
    """A prompt that loses its blocks between two chunks is recomputed."""
    core = small_core(threshold=2)
    core.add(engine_request(1, [1] * 2, 6))
    core.add(engine_request(2, [2] * 5, 1))

    outputs = run_to_end(core)

    (preempted,) = preemptions(outputs)
    assert (preempted.request_id, preempted.computed_tokens) == (2, 4)
    assert {key: len(tokens) for key, tokens in tokens_of(outputs).items()} == {
        1: 6,
        2: 1,
    }
    assert outputs[-1].stats.totals.residue.blocks == 0
    assert outputs[-1].stats.kv_blocks_used == 0


def test_preempted_request_can_be_aborted() -> None:
    """An abort while preempted ends the request and leaves the others alone."""
    core = small_core()
    for request_id in (1, 2):
        core.add(engine_request(request_id, [request_id] * 3, 5))
    while not core.step().events.preempted:
        pass

    core.finish([2], Aborted("the test"))
    outputs = run_to_end(core)

    ended = [event for output in outputs for event in output.events.finished]
    assert [(event.request_id, event.reason) for event in ended] == [
        (2, FinishReason.ABORT),
        (1, FinishReason.LENGTH),
    ]
    assert core.report("check").stats.kv_blocks_used == 0
