"""Which requests a step schedules, in which order, and how much of each."""

from collections.abc import Sequence

from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.events import StepOutput
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


def core_of(
    *,
    max_num_seqs: int = 4,
    budget: int = 16,
    is_chunked: bool = True,
    threshold: int | None = None,
    policy: Policy = Policy.FCFS,
) -> EngineCore:
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        enable_chunked_prefill=is_chunked,
        long_prefill_token_threshold=threshold,
        policy=policy,
    )
    cache = CacheConfig(block_size=1, enable_prefix_caching=False)
    return simulated_core(cache=cache, scheduler=scheduler, max_model_len=16)


def scheduled(output: StepOutput) -> Sequence[tuple[int, int]]:
    assert output.record is not None
    return output.record.request_tokens


def ends(outputs: list[StepOutput]) -> list[int]:
    return [event.request_id for output in outputs for event in output.events.finished]


def test_decodes_come_before_prefills() -> None:
    """A decoding request is scheduled before a prompt that was admitted earlier."""
    core = core_of(threshold=3)
    core.add(engine_request(1, [3] * 10, 2))
    core.add(engine_request(2, [4], 4))

    steps = [scheduled(core.step()) for _ in range(3)]

    assert steps == [[(2, 1), (1, 3)], [(2, 1), (1, 3)], [(2, 1), (1, 3)]]


def test_decodes_keep_their_token_during_long_prompts() -> None:
    """A long prompt gets what the running requests leave of the budget."""
    core = core_of(max_num_seqs=3, budget=4)
    core.add(engine_request(1, [3], 8))
    core.add(engine_request(2, [4], 8))
    core.step()

    core.add(engine_request(3, [5] * 5, 1))
    steps = [scheduled(core.step()) for _ in range(4)]

    assert [dict(step).get(3, 0) for step in steps] == [2, 2, 1, 0]
    assert all(step[:2] == [(1, 1), (2, 1)] for step in steps)


def test_fcfs_serves_in_order_of_arrival() -> None:
    """With one place in the batch requests end in the order they came."""
    core = core_of(max_num_seqs=1)
    for request_id, priority in ((7, 2), (3, 0), (5, 1)):
        core.add(engine_request(request_id, [3], 2, priority=priority))

    assert ends(run_to_end(core)) == [7, 3, 5]


def test_priority_serves_lower_first_then_arrival() -> None:
    """Under the priority policy a lower number is served first, equals in order."""
    core = core_of(max_num_seqs=1, policy=Policy.PRIORITY)
    for request_id, priority in ((7, 2), (3, 0), (5, 1), (4, 0)):
        core.add(engine_request(request_id, [3], 2, priority=priority))

    assert ends(run_to_end(core)) == [3, 4, 5, 7]


def test_no_request_overtakes_the_head_of_the_queue() -> None:
    """A short prompt behind one that does not fit yet waits with it."""
    core = simulated_core(
        cache=CacheConfig(block_size=1, num_kv_blocks=16, enable_prefix_caching=False),
        max_model_len=16,
    )
    core.add(engine_request(1, [3] * 8, 3))
    core.step()
    core.add(engine_request(2, [4] * 12, 1))
    core.add(engine_request(3, [5], 1))

    steps = [scheduled(core.step()) for _ in range(3)]

    assert steps == [[(1, 1)], [(1, 1)], [(3, 1), (2, 12)]]


def test_long_prompt_is_computed_in_chunks_of_the_threshold() -> None:
    """No step computes more prompt tokens of one request than the threshold."""
    core = core_of(threshold=4)
    core.add(engine_request(1, [3] * 10, 1))

    steps = [scheduled(output) for output in run_to_end(core)]

    assert steps == [[(1, 4)], [(1, 4)], [(1, 2)]]


def test_threshold_leaves_budget_to_others() -> None:
    """What a long prompt may not take goes to the next ones in the queue."""
    core = core_of(threshold=4, budget=10)
    core.add(engine_request(1, [3] * 10, 1))
    core.add(engine_request(2, [4] * 3, 1))
    core.add(engine_request(3, [5] * 5, 1))

    assert scheduled(core.step()) == [(1, 4), (2, 3), (3, 3)]


def test_without_threshold_a_prompt_takes_the_whole_budget() -> None:
    """Chunks are as large as the budget allows."""
    core = core_of(budget=6)
    core.add(engine_request(1, [3] * 10, 1))
    core.add(engine_request(2, [4] * 3, 1))

    steps = [scheduled(output) for output in run_to_end(core)]

    assert steps == [[(1, 6)], [(1, 4), (2, 2)], [(2, 1)]]


def test_disabled_chunking_computes_a_prompt_in_one_step() -> None:
    """Without chunked prefill a prompt waits until the budget holds all of it."""
    core = core_of(budget=16, is_chunked=False)
    core.add(engine_request(1, [3] * 10, 2))
    core.add(engine_request(2, [4] * 10, 2))

    steps = [scheduled(output) for output in run_to_end(core)]

    assert steps == [[(1, 10)], [(1, 1), (2, 10)], [(2, 1)]]


def test_batch_never_exceeds_max_num_seqs() -> None:
    """A free place is taken by the next request in the step after."""
    core = core_of(max_num_seqs=2)
    for request_id, max_tokens in ((1, 1), (2, 3), (3, 2)):
        core.add(engine_request(request_id, [3], max_tokens))

    steps = [[key for key, _ in scheduled(output)] for output in run_to_end(core)]

    assert steps == [[1, 2], [2, 3], [2, 3]]


def test_last_token_of_a_prompt_counts_as_prefill() -> None:
    """A chunk of one prompt token is prefill, a new token is decode."""
    core = core_of(threshold=2)
    core.add(engine_request(1, [3] * 3, 2))

    records = [output.record for output in run_to_end(core)]

    assert [
        (
            record.work.prefill_requests,
            record.work.prefill_tokens,
            record.work.decode_tokens,
        )
        for record in records
        if record is not None
    ] == [(1, 2, 0), (1, 1, 0), (0, 0, 1)]
