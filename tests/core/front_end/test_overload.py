"""A server's engine keeps a bounded number of requests open."""

import asyncio
from dataclasses import replace

import pytest

from hookline import AsyncEngine, EngineConfig, SamplingParams
from hookline.clock import VirtualClock
from hookline.config import ExecutorConfig, SchedulerConfig
from hookline.exceptions import OverloadedError, QueuedTokensError
from hookline.frontend.queue_limits import RetryEstimate
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_cluster.config import ClusterConfig
from hookline_simulated.config import SimulationConfig


async def test_requests_beyond_the_limit_are_refused_and_the_others_are_served() -> (
    None
):
    """With two open completions allowed, a third is refused until one has ended."""
    base = EngineConfig(executor=ExecutorConfig(name="simulated"))
    config = replace(
        base, scheduler=SchedulerConfig(max_num_seqs=1, max_num_queued_reqs=1)
    )
    params = SamplingParams(max_tokens=20)

    engine = await AsyncEngine.start(config)
    first = await engine.submit([5], params, is_streamed=False)
    second = await engine.submit([6], params, is_streamed=False)
    with pytest.raises(OverloadedError, match="2 completions are open"):
        await engine.submit([7], params)
    served = [output async for output in first]
    served += [output async for output in second]
    third = await engine.submit([7], params, is_streamed=False)
    served += [output async for output in third]
    await engine.close()

    assert [len(output.outputs[0].token_ids) for output in served] == [20, 20, 20]


async def test_engines_that_work_widen_the_bound() -> None:
    """Each runs as many as `max_num_seqs` says; the queue is that of all."""
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        scheduler=SchedulerConfig(max_num_seqs=1, max_num_queued_reqs=1),
        sections={"cluster": ClusterConfig(data_parallel_size=2)},
    )
    params = SamplingParams(max_tokens=500)

    engine = await AsyncEngine.start(config)
    for prompt in range(3):
        await engine.submit([prompt], params)
    with pytest.raises(OverloadedError, match="3 completions are open"):
        await engine.submit([7], params)
    engine._front_end.engines[1].mark_ended("it broke")
    with pytest.raises(OverloadedError, match="2 completions are open"):
        await engine.submit([7], params)
    await engine.close()


async def test_requests_that_come_at_once_do_not_slip_past_the_limit() -> None:
    """Of five that arrive together two are taken, though all wait for their tokens."""
    base = EngineConfig(executor=ExecutorConfig(name="simulated"))
    config = replace(
        base, scheduler=SchedulerConfig(max_num_seqs=1, max_num_queued_reqs=1)
    )
    params = SamplingParams(max_tokens=500)

    engine = await AsyncEngine.start(config)
    submits = [engine.submit("def", params, is_streamed=False) for _ in range(5)]
    results = await asyncio.gather(*submits, return_exceptions=True)
    refused = [each for each in results if isinstance(each, OverloadedError)]
    await engine.close()

    assert len(refused) == 3


async def test_prompts_are_refused_while_too_many_tokens_wait() -> None:
    """A long prompt is taken by an empty queue, and refused behind another one."""
    base = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        sections={"simulated": SimulationConfig(step_seconds=0.05)},
    )
    config = replace(
        base, scheduler=SchedulerConfig(max_num_seqs=1, max_num_queued_tokens=100)
    )
    params = SamplingParams(max_tokens=200)

    engine = await AsyncEngine.start(config)
    running = await engine.submit([5] * 150, params)
    await anext(running)
    waiting = await engine.submit([6] * 80, params)
    with pytest.raises(QueuedTokensError, match="100 tokens are waiting"):
        await engine.submit([7] * 30, params)
    waiting.abort("test")
    for _ in range(1000):
        if engine._front_end.engines.num_waiting_tokens:
            await asyncio.sleep(0.01)
    await engine.submit([7] * 30, params)
    await engine.close()


def test_the_time_to_try_again_follows_the_pace_of_the_queue() -> None:
    """Twenty waiting requests take ten seconds where two end each second."""
    clock = VirtualClock()
    estimate = RetryEstimate(clock)

    clock.sleep(5.0)

    assert estimate.seconds(20, ended=10) == 10
    assert estimate.seconds(1000, ended=10) == 60
    assert estimate.seconds(0, ended=10) == 1


def test_a_queue_that_does_not_move_asks_for_the_longest_wait() -> None:
    """Nothing has ended for a minute; at the start nothing is known yet."""
    clock = VirtualClock()
    estimate = RetryEstimate(clock)

    first = estimate.seconds(5, ended=0)
    clock.sleep(60.0)

    assert (first, estimate.seconds(5, ended=0)) == (1, 60)


def test_an_idle_hour_does_not_slow_the_estimated_pace() -> None:
    """Only the last windows count."""
    clock = VirtualClock()
    estimate = RetryEstimate(clock)

    clock.sleep(3600.0)
    assert estimate.is_due_at < clock.now()
    estimate.mark(ended=0)
    clock.sleep(11.0)
    estimate.mark(ended=110)
    clock.sleep(1.0)

    assert estimate.seconds(20, ended=120) == 2


async def test_requests_of_other_front_ends_count() -> None:
    """A front end that shares its engine knows of them by the engine's state."""
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        scheduler=SchedulerConfig(max_num_seqs=2, max_num_queued_reqs=3),
    )

    engine = await AsyncEngine.start(config)
    engines = engine._front_end.engines
    engines.first.stats = SchedulerStats(running=2, waiting=1, held={"grammar": 1})
    engine.check_room(5)
    engines.client.owns_engines = False
    engine.check_room(1)
    with pytest.raises(OverloadedError, match="5 completions are open"):
        engine.check_room(2)
    engines.client.owns_engines = True
    await engine.close()
