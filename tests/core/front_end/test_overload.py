"""A server's engine keeps a bounded number of requests open."""

import asyncio
from dataclasses import replace

import pytest

from hookline import AsyncEngine, EngineConfig, SamplingParams
from hookline.config import ExecutorConfig, SchedulerConfig
from hookline.exceptions import OverloadedError


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
