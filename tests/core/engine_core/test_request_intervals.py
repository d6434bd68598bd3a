"""Every interval of a request as an exact number: each step takes one second."""

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepOutput,
)
from hookline.finish_cause import Aborted, LengthReached
from hookline.request import FinishReason
from hookline.sampling_params import SamplingParams
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken
from hookline_testing.observed import ObservedEngine
from hookline_testing.payloads import make_output
from hookline_testing.simulation import simulated_core


def make(
    *,
    num_kv_blocks: int = 64,
    max_num_seqs: int = 8,
    threshold: int | None = None,
    is_caching: bool = False,
) -> ObservedEngine:
    clock = VirtualClock(start=77 * NANOSECONDS)
    core = simulated_core(
        clock=clock,
        cache=CacheConfig(
            block_size=1, num_kv_blocks=num_kv_blocks, enable_prefix_caching=is_caching
        ),
        scheduler=SchedulerConfig(
            max_num_seqs=max_num_seqs, long_prefill_token_threshold=threshold
        ),
        max_model_len=min(num_kv_blocks, 32),
    )
    return ObservedEngine(core, clock)


def tokens(max_tokens: int, *, n: int = 1) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, n=n)


def phases(request: FinishedRequest) -> tuple[float | None, ...]:
    """Queue, prefill, decode, inference."""
    return (
        request.queue_seconds,
        request.prefill_seconds,
        request.decode_seconds,
        request.inference_seconds,
    )


def last_phases(request: FinishedRequest) -> tuple[float | None, ...]:
    """Queue, prefill, decode, inference as of the most recent SCHEDULED."""
    return (
        request.last_scheduled_seconds,
        request.last_prefill_seconds,
        request.last_decode_seconds,
        request.last_inference_seconds,
    )


def seen(request: FinishedRequest) -> tuple[float | None, ...]:
    """What the client saw: TTFT, end to end, time per output token."""
    return request.ttft_seconds, request.e2e_seconds, request.tpot_seconds


def test_common_case() -> None:
    """A request waits for a place, is prefilled in a step, and decodes."""
    engine = make(max_num_seqs=1)
    engine.submit([1, 2, 3], tokens(2))
    engine.submit([4, 5, 6], tokens(3))
    engine.clock.sleep(0.5)

    engine.run()

    assert phases(engine.finished[1]) == (0.0, 1.0, 1.0, 2.0)
    assert seen(engine.finished[1]) == (1.5, 2.5, 1.0)
    assert phases(engine.finished[2]) == (2.0, 1.0, 2.0, 3.0)
    assert seen(engine.finished[2]) == (3.5, 5.5, 1.0)
    assert engine.finished[2].preempted_seconds == 0.0
    assert engine.finished[2].reason is FinishReason.LENGTH


def test_preempted_decode() -> None:
    """A stall is part of decode, of TPOT and of one inter-token interval."""
    engine = make(num_kv_blocks=8)
    engine.submit([1] * 3, tokens(5))
    engine.submit([2] * 3, tokens(5))

    engine.run()

    stalled = engine.finished[2]
    assert phases(stalled) == (0.0, 1.0, 7.0, 8.0)
    assert seen(stalled) == (1.0, 8.0, 1.75)
    assert stalled.preempted_seconds == 3.0
    assert last_phases(stalled) == (5.0, 1.0, 2.0, 3.0)
    assert (stalled.preemptions, stalled.recomputed_tokens) == (1, 4)
    assert last_phases(engine.finished[1]) == phases(engine.finished[1])
    assert phases(engine.finished[1]) == (0.0, 1.0, 4.0, 5.0)
    assert engine.finished[1].preempted_seconds == 0.0
    gaps = [gap for each in engine.iterations for gap in each.inter_token_seconds]
    assert sorted(gaps) == [(1.0, 1)] * 5 + [(1.0, 2), (4.0, 1)]
    assert sum(each.preemptions for each in engine.iterations) == 1
    assert sum(each.recomputed_tokens for each in engine.iterations) == 4


def test_preempted_prefill() -> None:
    """A stall before the first token is part of prefill and of TTFT, not of queue."""
    engine = make(num_kv_blocks=8, threshold=2)
    engine.submit([1] * 2, tokens(6))
    engine.submit([2] * 5, tokens(1))

    engine.run()

    stalled = engine.finished[2]
    assert phases(stalled) == (0.0, 9.0, 0.0, 9.0)
    assert seen(stalled) == (9.0, 9.0, None)
    assert stalled.preempted_seconds == 4.0
    assert last_phases(stalled) == (6.0, 3.0, 0.0, 3.0)
    assert (stalled.preemptions, stalled.recomputed_tokens) == (1, 4)


def test_chunked_prefill() -> None:
    """A prompt in three chunks has its first token after three steps."""
    engine = make(threshold=4)
    engine.submit([1] * 10, tokens(3))

    engine.run()

    assert phases(engine.finished[1]) == (0.0, 3.0, 2.0, 5.0)
    assert seen(engine.finished[1]) == (3.0, 5.0, 1.0)
    computed = [each.prompt_tokens_computed for each in engine.iterations]
    assert computed[:5] == [0, 0, 10, 0, 0]


def test_one_token_output_has_no_time_per_token() -> None:
    """One token means a decode of no time and no TPOT, not a TPOT of zero."""
    engine = make()
    engine.submit([1] * 3, tokens(1))

    engine.run()

    assert phases(engine.finished[1]) == (0.0, 1.0, 0.0, 1.0)
    assert seen(engine.finished[1]) == (1.0, 1.0, None)
    assert engine.iterations[0].inter_token_seconds == ()


def test_abort_while_queued() -> None:
    """A request that was never scheduled has no phases, but an end."""
    engine = make(max_num_seqs=1)
    engine.submit([1] * 3, tokens(4))
    waiting = engine.submit([2] * 3, tokens(4))
    engine.receive()

    engine.clock.sleep(0.25)
    engine.abort(waiting)
    engine.clock.sleep(0.5)
    engine.run()

    ended = engine.finished[2]
    assert phases(ended) == last_phases(ended) == (None, None, None, None)
    assert seen(ended) == (None, 1.25, None)
    assert ended.cause == Aborted("client")
    assert ended.output_tokens == 0


def test_abort_while_prefilling() -> None:
    """A request that was scheduled and has no token knows its queue time alone."""
    engine = make(threshold=2)
    request = engine.submit([1] * 8, tokens(4))
    engine.receive()

    engine.abort(request)
    engine.run()

    ended = engine.finished[1]
    assert phases(ended) == last_phases(ended) == (0.0, None, None, None)
    assert seen(engine.finished[1]) == (None, 1.0, None)


def test_abort_while_decoding() -> None:
    """Decode ends with the last token, the client's time when it went away."""
    engine = make()
    request = engine.submit([1] * 3, tokens(9))
    for _ in range(3):
        engine.receive()

    engine.clock.sleep(0.25)
    engine.abort(request)
    engine.clock.sleep(10.0)
    engine.run()

    ended = engine.finished[1]
    assert phases(ended) == last_phases(ended) == (0.0, 1.0, 2.0, 3.0)
    assert seen(ended) == (1.0, 3.25, 1.0)
    assert ended.output_tokens == 3


def test_end_while_preempted() -> None:
    """The last stall lasts until the engine ends the request."""
    engine = make(num_kv_blocks=8)
    engine.submit([1] * 3, tokens(5))
    stalled = engine.submit([2] * 3, tokens(5))
    for _ in range(4):
        engine.receive()

    engine.abort(stalled)
    engine.run()

    ended = engine.finished[2]
    assert ended.preempted_seconds == 2.0
    assert phases(ended) == (0.0, 1.0, 1.0, 2.0)
    assert (ended.preemptions, ended.recomputed_tokens) == (1, 0)


def test_preempted_again_while_resuming_counts_what_was_done() -> None:
    """Recomputed tokens of a request equal what the engine computed again."""
    engine = make(num_kv_blocks=8, threshold=2)
    engine.submit([1], tokens(7))
    engine.submit([2], tokens(3))
    engine.submit([3] * 2, tokens(3))

    engine.run()
    engine.reset_prefix_cache()
    state = engine.receive()

    assert state is not None
    assert state.stats.totals.recomputed_tokens == 5
    announced = sum(each.recomputed_tokens for each in engine.iterations)
    assert announced == 6
    assert [engine.finished[key].recomputed_tokens for key in (1, 2, 3)] == [0, 0, 5]
    assert engine.finished[3].preemptions == 2


def test_prompt_tokens_are_split_by_source() -> None:
    """Computed and cached prompt tokens add up to the prompts, at the first token."""
    engine = make(is_caching=True)
    engine.submit([1, 2, 3, 4], tokens(1))
    engine.run()

    engine.submit([1, 2, 3, 9], tokens(2))
    engine.receive()

    latest = engine.iterations[-1]
    assert (latest.prompt_tokens_computed, latest.prompt_tokens_local) == (1, 3)
    assert (latest.prompt_tokens, latest.prompt_tokens_external) == (4, 0)
    engine.run()
    assert engine.finished[2].local_cached_tokens == 3


def test_iteration_adds_up_all_requests_of_a_step() -> None:
    """A step's yield holds first tokens, later tokens and ends of all requests."""
    engine = make()
    engine.submit([1] * 3, tokens(3))
    engine.receive()
    engine.clock.sleep(0.5)
    engine.submit([2] * 4, tokens(1))

    engine.receive()

    step = engine.iterations[-1]
    assert step.generation_tokens == 2
    assert step.prompt_tokens == 4
    assert step.first_scheduled == (FirstScheduled(queue_seconds=0.0),)
    assert step.first_tokens == (
        FirstToken(seconds=1.0, prefill_seconds=1.0, is_streamed=True),
    )
    assert step.inter_token_seconds == ((1.5, 1),)
    assert [each.request_id for each in step.finished] == [2]
    assert step.finished_groups == (FinishedGroup(requests=step.finished),)


def test_group_ends_with_its_last_completion() -> None:
    """A request for two completions is one group, reported when both have ended."""
    engine = make(max_num_seqs=1)
    engine.submit([1] * 3, tokens(2, n=2))

    engine.run()

    first, last = [each for each in engine.iterations if each.finished]
    completions = (*first.finished, *last.finished)
    assert first.finished_groups == ()
    assert last.finished_groups == (FinishedGroup(requests=completions),)
    assert last.finished_groups[0].max_output_tokens == 2
    assert engine.accounting.finished == {"length": 2}


def test_end_before_a_token_of_the_last_admission() -> None:
    """Tokens from before the most recent SCHEDULED give it no interval."""
    engine = make()
    engine.submit([1] * 3, tokens(20))
    engine.take(
        told(
            engine,
            queued=[Queued(1, at(1), 3)],
            scheduled=[Scheduled(1, at(2), 0, 0, 0, is_resumed=False)],
            new_tokens=[NewTokens(1, at(3), [5])],
        )
    )
    engine.take(told(engine, preempted=[Preempted(1, at(4), 4)]))
    again = Scheduled(1, at(6), 0, 0, 4, is_resumed=True)
    end = Finished(1, at(7), Aborted("client"), 1)

    (request,) = engine.take(told(engine, scheduled=[again], finished=[end])).finished

    assert phases(request) == (1.0, 1.0, 0.0, 1.0)
    assert last_phases(request) == (5.0, None, None, None)


def at(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def told(engine: ObservedEngine, **events: object) -> StepOutput:
    """An output made by hand, at the engine's present time."""
    return make_output(engine.clock.now(), **events)


def test_several_tokens_in_one_event() -> None:
    """The interval is shared among the tokens that it brought."""
    engine = make()
    engine.submit([1] * 3, tokens(20))
    start = [Queued(1, at(1), 3)], [Scheduled(1, at(2.5), 0, 0, 0, is_resumed=False)]
    engine.take(told(engine, queued=start[0], scheduled=start[1]))

    first = engine.take(told(engine, new_tokens=[NewTokens(1, at(3), [5, 6, 7])]))
    later = engine.take(told(engine, new_tokens=[NewTokens(1, at(5), [8] * 4)]))
    end = Finished(1, at(6), LengthReached(), 7)
    last = engine.take(told(engine, finished=[end]))

    assert (first.generation_tokens, first.inter_token_seconds) == (3, ())
    assert len(first.first_tokens) == 1
    assert (later.generation_tokens, later.first_tokens) == (4, ())
    assert later.inter_token_seconds == ((0.5, 4),)
    (request,) = last.finished
    assert phases(request) == (1.5, 0.5, 2.0, 2.5)
    assert request.tpot_seconds == pytest.approx(2.0 / 6)
    assert request.output_tokens == 7


def test_waiting_for_remote_kv_is_placed_in_time() -> None:
    """On the wall clock, once for each time that it waited."""
    engine = make()
    engine.submit([1] * 3, tokens(20))
    waited = [(at(1), at(2)), (at(4), at(4.5))]
    first = Scheduled(1, at(2.5), 0, 2, 0, is_resumed=False, remote_kv=waited[0])
    again = Scheduled(1, at(5), 0, 2, 1, is_resumed=True, remote_kv=waited[1])

    engine.take(told(engine, queued=[Queued(1, at(1), 3)], scheduled=[first]))
    engine.take(told(engine, preempted=[Preempted(1, at(3), 2)]))
    engine.take(told(engine, scheduled=[again], new_tokens=[NewTokens(1, at(6), [5])]))
    end = Finished(1, at(6), LengthReached(), 1)
    (request,) = engine.take(told(engine, finished=[end])).finished

    assert request.times is not None
    assert request.times.queued is not None
    offset = request.times.queued - at(1)
    assert request.times.remote_kv == tuple(
        (begin + offset, end + offset) for begin, end in waited
    )
