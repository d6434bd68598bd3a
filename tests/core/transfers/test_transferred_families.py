"""Greedy output is `transformers`' own, wherever its KV comes from."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline.kv_transfer import KVTransferConfig
from hookline.testing import assert_conserved
from hookline.testing.connectors import DictStore, Faults
from hookline.testing.oracle import FAMILIES, Oracle, make_oracle

ConnectedLLM = Callable[[EngineConfig, DictStore], AbstractContextManager[LLM]]

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
BASE = EngineConfig(
    cache=CacheConfig(block_size=4, num_kv_blocks=128),
    kv_transfer=KVTransferConfig(kv_connector="dict", kv_load_timeout_seconds=5),
)
MODES = {
    "async-scheduling": replace(BASE, scheduler=SchedulerConfig(async_scheduling=True)),
    "chunked": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=13, max_num_seqs=4)
    ),
    "preempted": replace(BASE, cache=CacheConfig(block_size=4, num_kv_blocks=26)),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
}
FAULTS = Faults(fails=0.4, hides=0.1, forgets=0.05, raises=0.01, doubles=0.2)


def prompts() -> list[list[int]]:
    """Prompts of 3 to 60 tokens, some with a common beginning."""
    source = random.Random(3)  # noqa: S311 - a test
    common = [source.randrange(320) for _ in range(40)]
    alone = [[source.randrange(320) for _ in range(n)] for n in (3, 8, 9, 33, 60)]
    return [*alone, [*common, 5, 6, 7], [*common, 8]]


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


def config_for(folder: Path, base: EngineConfig) -> EngineConfig:
    return replace(base, model=ModelConfig(model=str(folder), max_model_len=96))


def run(
    connected_llm: ConnectedLLM, config: EngineConfig, store: DictStore
) -> tuple[list[list[int]], int]:
    """The tokens of all prompts, and how many of the prompts' were brought."""
    with connected_llm(config, store) as llm:
        outputs = llm.generate(prompts(), GREEDY)
        assert_conserved(llm)
        hits = llm.front_end.stats.external_cache.hit_tokens
    return [output.completions[0].token_ids for output in outputs], hits


def check(
    connected_llm: ConnectedLLM, oracle: Oracle, config: EngineConfig, store: DictStore
) -> int:
    """One engine saves, another loads; gives the tokens that the second one did."""
    expected = [oracle.greedy(prompt, 12) for prompt in prompts()]
    faults, store.faults = store.faults, Faults()
    saving, _ = run(connected_llm, config, store)
    store.faults = faults
    loading, hits = run(connected_llm, config, store)

    assert saving == expected
    assert loading == expected
    return hits


@pytest.mark.parametrize("is_async", [False, True])
def test_every_family_is_left_as_it_is(
    connected_llm: ConnectedLLM, family: Oracle, *, is_async: bool
) -> None:
    """Each family gives the oracle's tokens from another engine's KV."""
    store = DictStore(is_async=is_async)

    hits = check(connected_llm, family, config_for(family.folder, BASE), store)

    # All but the last block of each prompt, or its last token.
    assert hits == sum((len(prompt) - 1) // 4 * 4 for prompt in prompts())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_mode_is_left_as_it_is(
    connected_llm: ConnectedLLM, llama: Oracle, mode: str, *, is_async: bool
) -> None:
    """Chunks, steps that overlap, tiny pools: and loads that fail in all ways."""
    config = config_for(llama.folder, MODES[mode])
    config = replace(
        config,
        kv_transfer=KVTransferConfig(kv_connector="dict", kv_load_timeout_seconds=0.05),
    )
    store = DictStore(is_async=is_async, faults=FAULTS, delay_seconds=0.001)

    hits = check(connected_llm, llama, config, store)

    assert hits > 0
