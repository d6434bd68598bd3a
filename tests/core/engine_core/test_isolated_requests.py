"""A request whose own parameters raise an error ends alone; the engine goes on."""

from collections.abc import Iterator

import msgspec
import pytest

from hookline.clock import SystemClock, VirtualClock
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine_setup.building import build_core
from hookline.finish_cause import Failed, LengthReached
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import (
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)

BAD = [
    SamplingParams(max_tokens=4, allowed_token_ids=(10**6,)),
    SamplingParams(max_tokens=4, logit_bias={10**6: 1.0}),
]
"""What the front end never sends."""


@pytest.fixture(scope="module")
def core(llama: Oracle) -> Iterator[EngineCore]:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=32),
        scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=32),
    )
    core = build_core(config, SystemClock())
    yield core
    core.close()


def greedy(request_id: int) -> GenerateRequest:
    return msgspec.structs.replace(
        engine_request(request_id, [3, 4, 5], 4),
        params=SamplingParams(max_tokens=4, temperature=0.0, ignore_eos=True),
    )


@pytest.mark.parametrize("params", BAD, ids=["allowed", "bias"])
def test_parameters_that_cannot_be_used_end_one_request(
    core: EngineCore, params: SamplingParams
) -> None:
    """Those beside it, and those that get its row afterwards, keep their tokens."""
    core.add(greedy(1))
    alone = tokens_of(run_to_end(core))[1]

    core.add(greedy(2))
    core.add(msgspec.structs.replace(engine_request(3, [6, 7]), params=params))
    core.add(greedy(4))
    outputs = run_to_end(core)
    core.add(greedy(5))
    core.add(greedy(6))
    outputs += run_to_end(core)

    causes = {
        each.request_id: each.cause for one in outputs for each in one.events.finished
    }
    assert isinstance(causes.pop(3), Failed)
    assert causes == dict.fromkeys((2, 4, 5, 6), LengthReached())
    tokens = tokens_of(outputs)
    assert 3 not in tokens
    assert all(tokens[each] == alone for each in (2, 4, 5, 6))
    assert core.report("check").stats.totals.residue == Residue()


def test_a_salt_that_cannot_be_hashed_ends_one_request() -> None:
    """A lone surrogate has no bytes."""
    core = simulated_core(clock=VirtualClock(), cache=CacheConfig(block_size=2))
    core.add(engine_request(1, [3] * 6, 2, cache_salt="\ud800"))
    core.add(engine_request(2, [3] * 6, 2))

    outputs = run_to_end(core)

    causes = {
        each.request_id: each.cause for one in outputs for each in one.events.finished
    }
    assert isinstance(causes[1], Failed)
    assert causes[2] == LengthReached()
    assert core.report("check").stats.totals.residue == Residue()
