"""Greedy float32 output equals `transformers` generate, however requests are run."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    Dtype,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import ESSENTIAL_FAMILIES, FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import mixed_prompts

OUTPUT_TOKENS = 20
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)


BASE = EngineConfig()
TWO_STAGES = ParallelConfig(pipeline_parallel_size=2)
MODES = {
    "batched": BASE,
    "chunked-7": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=7, max_num_seqs=4)
    ),
    "chunked-64": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=64, max_num_seqs=16)
    ),
    "long-prefill": replace(
        BASE, scheduler=SchedulerConfig(long_prefill_token_threshold=10)
    ),
    "no-prefix-cache": replace(BASE, cache=CacheConfig(enable_prefix_caching=False)),
    "small-blocks": replace(BASE, cache=CacheConfig(block_size=4)),
    "preempted": replace(BASE, cache=CacheConfig(block_size=4, num_kv_blocks=24)),
    "overlapped": replace(BASE, scheduler=SchedulerConfig(async_scheduling=True)),
    "overlapped-preempted": replace(
        BASE,
        scheduler=SchedulerConfig(
            async_scheduling=True, max_num_batched_tokens=31, max_num_seqs=8
        ),
        cache=CacheConfig(block_size=4, num_kv_blocks=24),
    ),
    "process": replace(BASE, in_process=False),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
    "two-stages": replace(BASE, parallel=TWO_STAGES),
    "two-stages-preempted": replace(
        BASE,
        parallel=TWO_STAGES,
        scheduler=SchedulerConfig(max_num_batched_tokens=31, max_num_seqs=8),
        cache=CacheConfig(block_size=4, num_kv_blocks=24),
    ),
    "two-stages-torch-kernels": replace(
        BASE, parallel=TWO_STAGES, executor=ExecutorConfig(kernels=Kernels.TORCH)
    ),
    "three-stages": replace(BASE, parallel=ParallelConfig(pipeline_parallel_size=3)),
}


def config_for(folder: str, mode: str) -> EngineConfig:
    limit = 96 if mode.endswith("preempted") else None
    return replace(MODES[mode], model=ModelConfig(model=folder, max_model_len=limit))


@pytest.fixture(scope="module")
def expected(oracle: Oracle) -> list[list[int]]:
    """What the oracle makes of each prompt alone."""
    return [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in mixed_prompts()]


@pytest.mark.parametrize(
    ("family", "mode"),
    essential(
        product(sorted(FAMILIES), MODES),
        *product(ESSENTIAL_FAMILIES, ["overlapped-preempted"]),
        *product(["llama"], ["batched", "chunked-7"]),
    ),
    indirect=["family"],
)
def test_greedy_output_equals_generate(
    oracle: Oracle, expected: list[list[int]], mode: str
) -> None:
    """Each family gives the oracle's tokens in each mode, twice over."""
    with LLM.from_config(config_for(str(oracle.folder), mode)) as llm:
        first = llm.generate(mixed_prompts(), GREEDY)
        again = llm.generate(mixed_prompts(), GREEDY)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert [output.outputs[0].token_ids for output in first] == expected
    assert [output.outputs[0].token_ids for output in again] == expected
    if mode.endswith("preempted"):
        assert stats.totals.preemptions > 0
        assert stats.totals.recomputed_tokens > 0
    if mode == "no-prefix-cache":
        assert stats.totals.prefix_cache.hit_tokens == 0
    elif mode == "batched":
        assert again[-1].cached_tokens == 32


@pytest.mark.parametrize(
    ("family", "head_dim"),
    essential(
        product(sorted(FAMILIES), [None, 32]),
        ("gpt-oss", None),
        ("llama", 32),
    ),
    indirect=["family"],
)
def test_bfloat16_output_is_what_float32_finds_likely(
    head_dim: int | None, family: str, oracle: Oracle, tmp_path: Path
) -> None:
    """Along its own tokens the log-probabilities are float32's, but for rounding.

    Tiles of attention, where there are any, want other heads than these models have.
    """
    if head_dim is not None:
        oracle = make_oracle(family, tmp_path, head_dim=head_dim)
    model = ModelConfig(model=str(oracle.folder), dtype=Dtype.BFLOAT16)
    greedy = SamplingParams(temperature=0.0, max_tokens=8, logprobs=0)

    with LLM.from_config(replace(BASE, model=model)) as llm:
        outputs = llm.generate(mixed_prompts(), greedy)
        outputs += llm.generate(mixed_prompts(), greedy)  # of what is in the cache

    errors, regrets = [], []
    for prompt, output in zip(mixed_prompts() * 2, outputs, strict=True):
        tokens = output.outputs[0].token_ids
        told = output.outputs[0].logprobs
        assert told is not None
        along = oracle.probabilities_along(prompt, tokens).log()
        for at, (token, exact) in enumerate(zip(tokens, along, strict=True)):
            errors.append(abs(told[at].logprobs[0] - float(exact[token])))
            regrets.append(float(exact.max() - exact[token]))
    assert torch.tensor(errors).median() < 0.02
    assert max(regrets) < 0.5
