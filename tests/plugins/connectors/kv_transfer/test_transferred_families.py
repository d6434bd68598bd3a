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
from hookline_kv_transfer import KVTransferConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing import assert_conserved
from hookline_testing.connectors import DictStore, Faults
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle

ConnectedLLM = Callable[[EngineConfig, DictStore], AbstractContextManager[LLM]]

OUTPUT_TOKENS = 8
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)
TRANSFER = KVTransferConfig(kv_connector="dict", kv_load_timeout_seconds=5)
BASE = EngineConfig(
    cache=CacheConfig(block_size=4, num_kv_blocks=128), kv_transfer=TRANSFER.section()
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
    """Prompts of 8 to 60 tokens, some with a common beginning."""
    source = random.Random(3)  # noqa: S311 - a test
    common = [source.randrange(320) for _ in range(40)]
    alone = [[source.randrange(320) for _ in range(n)] for n in (8, 9, 60)]
    return [*alone, [*common, 5, 6, 7], [*common, 8]]


@pytest.fixture(
    scope="module", params=essential(sorted(FAMILIES), "gemma2", "gpt2", "llama")
)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


def config_for(folder: Path, base: EngineConfig) -> EngineConfig:
    return replace(base, model=ModelConfig(model=str(folder), max_model_len=96))


def check(
    connected_llm: ConnectedLLM, oracle: Oracle, config: EngineConfig, faults: Faults
) -> list[int]:
    """Saves all prompts, then loads them synchronously, then asynchronously.

    Gives the tokens that were brought after each of the three.
    """
    expected = [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in prompts()]
    store, found, hits = DictStore(delay_seconds=0.001), [], []
    with connected_llm(config, store) as llm:
        for is_async in (None, False, True):
            store.faults = Faults() if is_async is None else faults
            store.is_async = bool(is_async)
            found.append(llm.generate(prompts(), GREEDY))
            assert_conserved(llm)  # and nothing is found in the engine's own cache
            hits.append(
                transfers_of(llm.front_end.engines[0].stats).external_cache.hit_tokens
            )

    for outputs in found:
        assert [output.outputs[0].token_ids for output in outputs] == expected
    return hits


def test_every_family_is_left_as_it_is(
    connected_llm: ConnectedLLM, family: Oracle
) -> None:
    """Each family gives the oracle's tokens from KV that it did not compute."""
    config = config_for(family.folder, BASE)

    hits = check(connected_llm, family, config, Faults())

    # All but the last block of each prompt, or its last token.
    all_tokens = sum((len(prompt) - 1) // 4 * 4 for prompt in prompts())
    assert hits == [0, all_tokens, 2 * all_tokens]


@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_mode_is_left_as_it_is(
    connected_llm: ConnectedLLM, llama: Oracle, mode: str
) -> None:
    """Chunks, steps that overlap, tiny pools: and loads that fail in all ways."""
    transfer = replace(TRANSFER, kv_load_timeout_seconds=0.05)
    config = replace(
        config_for(llama.folder, MODES[mode]), kv_transfer=transfer.section()
    )

    hits = check(connected_llm, llama, config, FAULTS)

    assert hits[0] <= hits[1] <= hits[2] > hits[0]
