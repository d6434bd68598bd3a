"""Greedy float32 output equals `transformers` generate, however requests are run."""

import random

import pytest

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    LoadFormat,
    ModelConfig,
    SchedulerConfig,
)
from hookline.testing import assert_conserved
from hookline.testing.oracle import Oracle

OUTPUT_TOKENS = 20
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)


def prompts() -> list[list[int]]:
    """Nine prompts of 1 to 60 tokens, some with a common beginning."""
    source = random.Random(3)
    common = [source.randrange(320) for _ in range(40)]
    lengths = (1, 2, 15, 16, 17, 33, 60)
    alone = [[source.randrange(320) for _ in range(length)] for length in lengths]
    return [*alone, common + [5, 6, 7], common + [8]]


MODES: dict[str, dict[str, object]] = {
    "batched": {},
    "chunked-7": {
        "scheduler": SchedulerConfig(max_num_batched_tokens=7, max_num_seqs=4)
    },
    "chunked-64": {
        "scheduler": SchedulerConfig(max_num_batched_tokens=64, max_num_seqs=16)
    },
    "long-prefill": {"scheduler": SchedulerConfig(long_prefill_token_threshold=10)},
    "no-prefix-cache": {"cache": CacheConfig(enable_prefix_caching=False)},
    "small-blocks": {"cache": CacheConfig(block_size=4)},
    "preempted": {"cache": CacheConfig(block_size=4, num_kv_blocks=24)},
    "process": {"in_process": False},
}


def config_for(folder: str, mode: str) -> EngineConfig:
    limit = 96 if mode == "preempted" else None
    return EngineConfig(
        model=ModelConfig(model=folder, max_model_len=limit), **MODES[mode]
    )


@pytest.mark.parametrize("mode", MODES)
def test_greedy_output_equals_generate(oracle: Oracle, mode: str) -> None:
    """Each family gives the oracle's tokens in each mode, twice over."""
    expected = [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in prompts()]

    with LLM(config=config_for(str(oracle.folder), mode)) as llm:
        first = llm.generate(prompts(), GREEDY)
        again = llm.generate(prompts(), GREEDY)
        stats = llm.front_end.stats
        assert_conserved(llm)

    assert [output.completions[0].token_ids for output in first] == expected
    assert [output.completions[0].token_ids for output in again] == expected
    if mode == "preempted":
        assert stats.preemptions > 0
        assert stats.recomputed_tokens > 0
    if mode == "no-prefix-cache":
        assert stats.prefix_cache.hit_tokens == 0
    elif mode == "batched":
        assert again[-1].cached_tokens == 32
