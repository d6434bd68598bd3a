"""Prefix hits as the scheduler sees them: found, counted, shared within a step."""

from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.events import Scheduled, StepOutput
from hookline.stats.scheduler_stats import PrefixCacheCounts
from hookline_testing.cache_check import CacheCheckingExecutor
from hookline_testing.simulation import engine_request, run_to_end, simulated_core

PROMPT = [5, 6, 7, 8, 9, 10]


def caching_core(
    *, is_caching: bool = True, scheduler: SchedulerConfig | None = None
) -> EngineCore:
    """Blocks of two tokens, and an executor that checks what is read."""
    return simulated_core(
        cache=CacheConfig(block_size=2, enable_prefix_caching=is_caching),
        scheduler=scheduler,
        max_model_len=32,
        wrap=lambda inner: CacheCheckingExecutor(inner, 2),
    )


def admissions(*outputs: StepOutput) -> list[Scheduled]:
    return [event for output in outputs for event in output.events.scheduled]


def test_finished_request_leaves_its_prefix() -> None:
    """A later request computes only what the earlier one has not left behind."""
    core = caching_core()
    core.add(engine_request(1, PROMPT, 2))
    run_to_end(core)

    core.add(engine_request(2, [*PROMPT, 11], 1))
    output = core.step()

    assert admissions(output)[0].local_cached_tokens == 6
    assert output.record is not None
    assert output.record.request_tokens == [(2, 1)]
    assert output.stats.totals.prefix_cache == PrefixCacheCounts(2, 13, 6)


def test_request_tells_how_much_of_its_prompt_it_stored() -> None:
    """Of two equal prompts in one step the second stores nothing; outputs never count.

    A later request stores only the blocks that it computed.
    """
    core = caching_core()
    core.add(engine_request(1, PROMPT, 5))
    core.add(engine_request(2, PROMPT, 5))
    outputs = run_to_end(core)
    core.add(engine_request(3, [*PROMPT, 11, 12, 13], 1))
    outputs += run_to_end(core)

    stored = {
        event.request_id: event.stored_prompt_tokens
        for output in outputs
        for event in output.events.finished
    }
    assert stored == {1: 6, 2: 0, 3: 2}


def test_generated_tokens_are_reused_too() -> None:
    """A conversation's next turn finds the answer of the turn before."""
    core = caching_core()
    core.add(engine_request(1, PROMPT, 5))
    outputs = run_to_end(core)
    answer = [
        token for output in outputs for token in output.events.new_tokens[0].token_ids
    ]

    core.add(engine_request(2, [*PROMPT, *answer, 11], 1))

    assert admissions(core.step())[0].local_cached_tokens == 10


def test_requests_of_one_step_share_their_prefix() -> None:
    """Of two requests admitted together the second computes only its own tokens."""
    core = caching_core()
    core.add(engine_request(1, [*PROMPT, 11], 1))
    core.add(engine_request(2, [*PROMPT, 12], 1))

    output = core.step()

    assert [event.local_cached_tokens for event in admissions(output)] == [0, 6]
    assert output.record is not None
    assert sorted(output.record.request_tokens) == [(1, 7), (2, 1)]


def test_step_shares_what_a_running_chunk_computes() -> None:
    """A newcomer finds the blocks that this very step fills for a running request."""
    scheduler = SchedulerConfig(long_prefill_token_threshold=4)
    core = caching_core(scheduler=scheduler)
    core.add(engine_request(1, [*PROMPT, 11], 1))
    core.step()

    core.add(engine_request(2, [*PROMPT, 12], 1))
    output = core.step()

    assert admissions(output)[0].local_cached_tokens == 6


def test_step_shares_no_more_than_it_computes() -> None:
    """Blocks of a later chunk are not found before their own step."""
    scheduler = SchedulerConfig(long_prefill_token_threshold=4)
    core = caching_core(scheduler=scheduler)
    core.add(engine_request(1, [*PROMPT, 11], 1))
    core.add(engine_request(2, [*PROMPT, 12], 1))

    output = core.step()

    assert [event.local_cached_tokens for event in admissions(output)] == [0, 4]


def test_lookup_is_counted_once_a_request() -> None:
    """Waiting for room and chunks do not count a lookup again."""
    scheduler = SchedulerConfig(max_num_seqs=1, long_prefill_token_threshold=2)
    core = caching_core(scheduler=scheduler)
    core.add(engine_request(1, PROMPT, 3))
    core.add(engine_request(2, PROMPT, 3))

    outputs = run_to_end(core)

    assert outputs[-1].stats.totals.prefix_cache == PrefixCacheCounts(2, 12, 4)


def test_prompt_logprobs_are_no_lookup() -> None:
    """A request that skips the prefix cache does not lower the hit rate."""
    core = caching_core()
    core.add(engine_request(1, PROMPT, 1))
    run_to_end(core)

    core.add(engine_request(2, PROMPT, 1, prompt_logprobs=0))
    output = core.step()

    assert output.record is not None
    assert output.record.request_tokens == [(2, 6)]
    assert output.stats.totals.prefix_cache == PrefixCacheCounts(1, 6, 0)


def test_disabled_cache_is_not_looked_at() -> None:
    """Without prefix caching nothing is found and no lookup is counted."""
    core = caching_core(is_caching=False)
    core.add(engine_request(1, PROMPT, 1))
    core.add(engine_request(2, PROMPT, 1))

    outputs = run_to_end(core)

    assert [event.local_cached_tokens for event in admissions(*outputs)] == [0, 0]
    assert outputs[-1].stats.totals.prefix_cache == PrefixCacheCounts()


def test_reset_makes_the_next_request_compute_all() -> None:
    """After a reset an old prefix is not found."""
    core = caching_core()
    core.add(engine_request(1, PROMPT, 1))
    run_to_end(core)

    core.reset_prefix_cache()
    core.add(engine_request(2, PROMPT, 1))

    assert admissions(core.step())[0].local_cached_tokens == 0


def test_salts_and_adapters_do_not_share() -> None:
    """Equal prompts of another salt or LoRA find only their own."""
    core = caching_core()
    for request_id, (lora, salt) in enumerate(
        [(None, None), ("a", None), (None, "a"), ("a", "a"), ("a", None)], start=1
    ):
        core.add(engine_request(request_id, PROMPT, 1, lora=lora, cache_salt=salt))

    cached = [event.local_cached_tokens for event in admissions(core.step())]

    assert cached == [0, 0, 0, 0, 4]
