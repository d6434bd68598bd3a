"""Steps that are planned before the tokens of the step before them are known."""

import random
from dataclasses import dataclass, field, replace
from functools import cache

import msgspec
import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.worker.executor import DeferredStep, Executor, StartedStep
from hookline.events import NewTokens, Preempted, Scheduled, StepOutput, StepRecord
from hookline.finish_cause import Aborted, FinishCause, StoppedByToken
from hookline.frontend.timeline import Timeline
from hookline.payloads import StepFinished
from hookline.request import FinishReason, GenerateRequest, TokenLogprobs
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import Residue
from hookline.step import StepLogprobs, StepPlan, StepResult
from hookline_metrics.saturation import Saturation
from hookline_testing.cache_check import CacheCheckingExecutor
from hookline_testing.essential import essential
from hookline_testing.observed import ObservedEngine
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)
from hookline_testing.wrapped_executor import WrappedExecutor

MAX_MODEL_LEN = 24


class MayStop(WrappedExecutor):
    """Lets a simulated executor sample stop tokens, which it avoids by itself."""

    def start(self, plan: StepPlan) -> StartedStep:
        admitted = [replace(each, eos_token_ids=()) for each in plan.admitted]
        return self._inner.start(replace(plan, admitted=admitted))


class TellsPromptLogprobs(WrappedExecutor):
    """Adds prompt log-probabilities to a simulated executor."""

    def __init__(self, inner: Executor) -> None:
        super().__init__(inner)
        self._computed: dict[int, int] = {}
        self._prompts: dict[int, int] = {}

    def start(self, plan: StepPlan) -> StartedStep:
        return DeferredStep(self._execute, plan)

    def _execute(self, plan: StepPlan) -> StepResult:
        for admitted in plan.admitted:
            self._computed[admitted.request_id] = admitted.num_computed_tokens
            self._prompts[admitted.request_id] = admitted.num_prompt_tokens
        told = {}
        for request_id, count in zip(plan.request_ids, plan.num_tokens, strict=True):
            first = self._computed[request_id]
            self._computed[request_id] += count
            end = min(first + count, self._prompts[request_id] - 1)
            told[request_id] = [TokenLogprobs([0], [0.0], 1)] * (end - first)
        return replace(
            self._inner.start(plan).result(), logprobs=StepLogprobs({}, told)
        )


def core_with(
    scheduler: SchedulerConfig,
    *,
    overlaps: bool,
    cache: CacheConfig | None = None,
    clock: VirtualClock | None = None,
    stages: int = 1,
) -> EngineCore:
    """Whose steps check every slot of the cache that they read."""
    cache = cache or CacheConfig()

    def wrap(inner: Executor) -> Executor:
        return CacheCheckingExecutor(MayStop(inner), cache.block_size)

    return simulated_core(
        scheduler=replace(scheduler, async_scheduling=overlaps),
        cache=cache,
        clock=clock,
        max_model_len=MAX_MODEL_LEN,
        wrap=wrap,
        stages=stages,
    )


def stopping_request(
    request_id: int,
    prompt: list[int],
    max_tokens: int,
    *,
    stop_token_ids: tuple[int, ...] = (),
    min_tokens: int = 0,
    priority: int = 0,
) -> GenerateRequest:
    request = engine_request(request_id, prompt, max_tokens, priority=priority)
    params = msgspec.structs.replace(
        request.params, stop_token_ids=stop_token_ids, min_tokens=min_tokens
    )
    return msgspec.structs.replace(request, params=params)


@dataclass
class Traffic:
    """What happens before which step, made at random."""

    scheduler: SchedulerConfig
    cache: CacheConfig
    arrivals: dict[int, list[GenerateRequest]] = field(default_factory=dict)
    aborts: dict[int, list[int]] = field(default_factory=dict)
    resets: set[int] = field(default_factory=set)


def make_traffic(seed: int) -> Traffic:
    source = random.Random(seed)  # noqa: S311 - no secret
    max_num_seqs, block_size = source.randint(1, 6), source.randint(1, 6)
    is_chunked = source.random() < 0.7
    needed = -(-MAX_MODEL_LEN // block_size)
    traffic = Traffic(
        SchedulerConfig(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_seqs + source.randint(0, 12)
            if is_chunked
            else MAX_MODEL_LEN + max_num_seqs,
            enable_chunked_prefill=is_chunked,
            policy=source.choice(list(Policy)),
        ),
        CacheConfig(
            block_size=block_size,
            num_kv_blocks=needed + source.randint(0, needed),
            enable_prefix_caching=source.random() < 0.7,
        ),
    )
    for request_id in range(1, source.randint(4, 16)):
        prefix = [5, 6, 7, 8, 9, 10, 11, 12][: source.choice([0, 0, 4, 8])]
        prompt = [*prefix, *source.choices(range(3, 5), k=source.randint(1, 12))]
        request = stopping_request(
            request_id,
            prompt,
            source.randint(3, MAX_MODEL_LEN),
            stop_token_ids=tuple(source.sample(range(1000), 100)),
            min_tokens=source.choice([0, 0, 3]),
            priority=source.randint(0, 2),
        )
        at = source.randint(0, 12)
        traffic.arrivals.setdefault(at, []).append(request)
        if source.random() < 0.15:
            when = at + source.randint(0, 9)
            traffic.aborts.setdefault(when, []).append(request_id)
    traffic.resets = {step for step in range(30) if source.random() < 0.03}
    return traffic


def drive(traffic: Traffic, *, overlaps: bool, stages: int = 1) -> list[StepOutput]:
    """Runs the traffic to its end; the books balance after every step."""
    core = core_with(
        traffic.scheduler, overlaps=overlaps, cache=traffic.cache, stages=stages
    )
    outputs: list[StepOutput] = []
    last = max(*traffic.arrivals, *traffic.aborts, 0)
    for turn in range(2000):
        for request in traffic.arrivals.get(turn, ()):
            core.add(request)
        core.finish(traffic.aborts.get(turn, ()), Aborted("the test"))
        if turn in traffic.resets:
            core.reset_prefix_cache()
        if core.has_work:
            outputs.append(core.step())
            assert_in_order(outputs[-1])
        outputs.append(core.report("check"))
        stats = outputs[-1].stats
        assert stats.totals.residue == Residue()
        ended = sum(stats.totals.finished.values())
        assert stats.totals.received == ended + stats.running + stats.waiting
        if turn >= last and not core.has_work:
            assert stats.running == stats.waiting == stats.kv_blocks_used == 0
            assert stats.waiting_tokens == 0
            return outputs
    raise AssertionError("the traffic does not end")


def assert_in_order(output: StepOutput) -> None:
    """Observers hear of preemptions before admissions, and that is their order."""
    preempted = [each.at for each in output.events.preempted]
    scheduled = [each.at for each in output.events.scheduled]
    assert max(preempted, default=0) <= min(scheduled, default=output.at)


def records_of(outputs: list[StepOutput]) -> list[StepRecord]:
    return [each.record for each in outputs if each.record is not None]


def ends_of(outputs: list[StepOutput]) -> dict[int, FinishCause]:
    return {
        event.request_id: event.cause
        for output in outputs
        for event in output.events.finished
    }


@cache
def driven_plainly(seed: int) -> list[StepOutput]:
    """What all ways to drive are compared with."""
    return drive(make_traffic(seed), overlaps=False)


@pytest.mark.parametrize(
    ("overlaps", "stages"),
    essential(
        [(True, 1), (False, 2), (True, 3)], (True, 1), slow=[(False, 2), (True, 3)]
    ),
)
def test_random_traffic_gives_the_same_tokens(*, overlaps: bool, stages: int) -> None:
    """Stops, aborts, preemptions, chunks, prefix hits: overlap changes no text.

    An aborted request has a beginning of the same text. Each kind of event happens in
    some of the schedules.
    """
    seen = {"preempted": 0, "hits": 0, "discarded": 0, "stop": 0, "abort": 0}
    for seed in range(100):
        traffic = make_traffic(seed)
        plain = driven_plainly(seed)
        overlapped = drive(traffic, overlaps=overlaps, stages=stages)

        expected, ends = tokens_of(plain), ends_of(plain)
        found, found_ends = tokens_of(overlapped), ends_of(overlapped)
        assert ends.keys() == found_ends.keys()
        for request_id, end in found_ends.items():
            told, wanted = found.get(request_id, []), expected.get(request_id, [])
            if FinishReason.ABORT in {end.reason, ends[request_id].reason}:
                length = min(len(told), len(wanted))
                assert told[:length] == wanted[:length]
            else:
                assert (told, end) == (wanted, ends[request_id]), (seed, request_id)
        stats = overlapped[-1].stats
        computed = sum(
            count
            for record in records_of(overlapped)
            for _, count in record.request_tokens
        )
        assert stats.totals.computed_tokens == computed
        assert plain[-1].stats.totals.discarded_tokens == 0
        seen["preempted"] += stats.totals.preemptions
        seen["hits"] += stats.totals.prefix_cache.hit_tokens
        seen["discarded"] += stats.totals.discarded_tokens
        for reason in ("stop", "abort"):
            seen[reason] += stats.totals.finished.get(reason, 0)
    assert min(seen.values()) > 20, seen


def test_a_stop_token_wastes_one_row() -> None:
    """The step that was under way computed the ended request once more, in vain."""
    alone = core_with(SchedulerConfig(), overlaps=False)
    alone.add(engine_request(1, [3, 4, 5], 6))
    [*_, stop] = tokens_of(run_to_end(alone))[1][:3]

    core = core_with(SchedulerConfig(), overlaps=True)
    core.add(stopping_request(1, [3, 4, 5], 6, stop_token_ids=(stop,)))
    outputs = run_to_end(core)

    assert ends_of(outputs) == {1: StoppedByToken(stop)}
    assert [record.sampled_requests for record in records_of(outputs)] == [1] * 4
    assert [len(output.events.new_tokens) for output in outputs] == [0, 1, 1, 1, 0]
    assert [output.cause for output in outputs] == ["start", *["step"] * 4]
    assert outputs[-1].stats.totals.discarded_tokens == 1
    assert outputs[-1].stats.kv_blocks_used == 0


def test_an_end_by_length_wastes_nothing() -> None:
    """A request that will surely end with its token under way is not computed again."""
    core = core_with(SchedulerConfig(), overlaps=True)
    for request_id, max_tokens in enumerate([1, 2, 5], start=1):
        core.add(engine_request(request_id, [3, 4, 5], max_tokens))

    outputs = run_to_end(core)

    assert [len(record.request_tokens) for record in records_of(outputs)] == [
        3,
        2,
        1,
        1,
        1,
    ]
    assert outputs[-1].stats.totals.discarded_tokens == 0


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("max_tokens", [2, 3, 4, 5, 6])
def test_every_full_block_of_an_ended_request_is_found(
    max_tokens: int, *, overlaps: bool
) -> None:
    """A block that the last tokens filled is kept, whenever they became known."""
    core = core_with(
        SchedulerConfig(), overlaps=overlaps, cache=CacheConfig(block_size=2)
    )
    core.add(engine_request(1, [3, 4, 5], max_tokens))
    text = [3, 4, 5, *tokens_of(run_to_end(core))[1]]

    core.add(engine_request(2, [*text, 9, 9], 1))
    (scheduled,) = (each for out in run_to_end(core) for each in out.events.scheduled)

    computed = len(text) - 1
    assert scheduled.local_cached_tokens == computed // 2 * 2


@pytest.mark.parametrize("overlaps", [False, True])
def test_preempted_with_a_token_under_way(*, overlaps: bool) -> None:
    """The token comes to the waiting request, which is recomputed with it."""
    core = core_with(
        SchedulerConfig(),
        overlaps=overlaps,
        cache=CacheConfig(block_size=2, num_kv_blocks=12, enable_prefix_caching=False),
    )
    for request_id in (1, 2):
        core.add(engine_request(request_id, [request_id] * 8, 12))

    told = core.step()
    while not told.events.preempted:
        told = core.step()

    assert [event.request_id for event in told.events.new_tokens] == [1, 2][
        : 1 + overlaps
    ]
    outputs = run_to_end(core)
    assert outputs[-1].stats.totals.preemptions == 1
    assert outputs[-1].stats.totals.residue == Residue()


def test_times_of_overlapping_steps_count_nothing_twice() -> None:
    """A step is planned before the one before it is executed, and waits for it."""
    clock = VirtualClock()
    core = core_with(SchedulerConfig(), overlaps=True, clock=clock)
    core.add(engine_request(1, [3, 4, 5], 4))

    records = records_of(run_to_end(core))

    seconds = [
        (
            each.started_at // NANOSECONDS,
            each.executed_at // NANOSECONDS,
            each.waited_ns // NANOSECONDS,
            each.execute_ns // NANOSECONDS,
        )
        for each in records
    ]
    assert seconds == [(0, 1, 0, 1), (0, 2, 1, 1), (1, 3, 1, 1), (2, 4, 1, 1)]
    assert sum(each.execute_ns for each in records) == clock.now()


def test_intervals_of_requests_add_up() -> None:
    """Over the loop and the front end: no phase is longer than what contains it."""
    preempted = 0
    for seed in range(60):
        traffic, clock = make_traffic(seed), VirtualClock()
        core = core_with(
            traffic.scheduler, overlaps=True, cache=traffic.cache, clock=clock
        )
        engine = ObservedEngine(core, clock)
        for turn in sorted(traffic.arrivals):
            for request in traffic.arrivals[turn]:
                prompt = request.prompt_token_ids
                engine.submit(prompt, request.params, priority=request.facts.priority)
            engine.receive()
        engine.run()

        for each in engine.finished.values():
            assert each.prefill_seconds is not None
            assert each.decode_seconds is not None
            before = each.preempted_prefill_seconds
            preempted += each.preempted_seconds > 0
            assert 0 <= before <= each.prefill_seconds
            assert 0 <= each.preempted_seconds - before <= each.decode_seconds
        assert len(engine.finished) == sum(map(len, traffic.arrivals.values()))
    assert preempted > 20


def test_a_stall_before_the_first_token_is_part_of_prefill() -> None:
    """Preempted at 5 with the first token under way, which came at 6; resumed at 9."""
    timeline = Timeline()

    timeline.scheduled(Scheduled(1, 0, 0, 0, 0, is_resumed=False))
    timeline.preempted(Preempted(1, 5, 3))
    timeline.new_tokens(NewTokens(1, 6, [7]), 6)
    timeline.scheduled(Scheduled(1, 9, 0, 0, 3, is_resumed=True))

    lost = timeline.preemptions
    assert (lost.total, lost.before_first_token) == (4, 1)


@pytest.mark.parametrize("overlaps", [False, True])
def test_saturation_sees_the_true_length_of_steps(*, overlaps: bool) -> None:
    """Time that two steps have in common is counted for one of them."""
    clock = VirtualClock()
    core = core_with(SchedulerConfig(max_num_seqs=4), overlaps=overlaps, clock=clock)
    saturation = Saturation(core.facts)
    for request_id in range(1, 40):
        core.add(engine_request(request_id, [3, 4, 5], request_id % 12 + 1))

    for output in run_to_end(core):
        if output.record is None:
            continue
        saturation.step(
            StepFinished(
                engine_index=0,
                record=output.record,
                iteration=IterationStats(),
                scheduler=output.stats,
            )
        )
    saturation.value()

    assert saturation._costs.cost.seconds(4, 0) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_prompt_logprobs_of_a_preempted_prompt_come_once(stages: int) -> None:
    """However chunks, preemption and overlap fall: one entry for each position."""
    lengths: list[int] = []
    for blocks in range(12, 20):
        for budget in (6, 9, 30):
            lengths += told_prompt_logprobs(blocks, budget, stages)

    assert set(lengths) == {9}


def told_prompt_logprobs(blocks: int, budget: int, stages: int) -> list[int]:
    """How many entries requests of ten prompt tokens got."""
    core = simulated_core(
        scheduler=SchedulerConfig(
            max_num_batched_tokens=budget, max_num_seqs=4, async_scheduling=True
        ),
        cache=CacheConfig(block_size=2, num_kv_blocks=blocks),
        max_model_len=MAX_MODEL_LEN,
        wrap=TellsPromptLogprobs,
        stages=stages,
    )
    for request_id in range(1, 5):
        core.add(engine_request(request_id, [request_id] * 10, 8, prompt_logprobs=0))
    return [
        len(event.prompt_logprobs)
        for output in run_to_end(core)
        for event in output.events.new_tokens
        if event.prompt_logprobs is not None
    ]
