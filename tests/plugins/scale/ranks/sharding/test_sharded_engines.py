"""Engines with several ranks give the output of `transformers`, in all modes."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, SamplingParams
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import mixed_prompts

pytestmark = pytest.mark.slow

COUNT = 20
GREEDY = SamplingParams(temperature=0.0, max_tokens=COUNT)
MODES: Mapping[str, dict[str, Any]] = {
    "batched": {"num_kv_blocks": 256},
    "chunked": {"max_num_batched_tokens": 7, "max_num_seqs": 4, "num_kv_blocks": 256},
    "preempted": {
        "block_size": 4,
        "num_kv_blocks": 24,
        "max_model_len": 96,
        "max_num_batched_tokens": 31,
        "max_num_seqs": 8,
        "async_scheduling": True,
    },
    "no-prefix-cache": {"enable_prefix_caching": False, "num_kv_blocks": 256},
    "drafted": {
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
        "num_kv_blocks": 256,
    },
    "torch-kernels": {"kernels": "torch", "num_kv_blocks": 256},
    "two-stages": {"pipeline_parallel_size": 2, "num_kv_blocks": 256},
}
NOT_REPEATED = {"falcon-new"}
EXPERTS = {"deepseek-v2", "deepseek-v3", "gpt-oss", "mixtral", "qwen3-moe"}
"""Families with experts, two of which are chosen for each token."""


@pytest.fixture(scope="module")
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    folder: Path = tmp_path_factory.mktemp(request.param)
    return make_oracle(request.param, folder)


@pytest.mark.exhaustive  # the test of experts has ranks that preempt, too
@pytest.mark.parametrize(
    ("family", "mode", "size"),
    [
        *product(sorted(FAMILIES), MODES, [2]),
        *product(sorted(FAMILIES.keys() - NOT_REPEATED), ["preempted"], [4]),
    ],
    indirect=["family"],
)
def test_greedy_output_equals_generate(family: Oracle, mode: str, size: int) -> None:
    """Each family gives the oracle's tokens in each mode, twice over."""
    expected = [family.greedy(prompt, COUNT) for prompt in mixed_prompts()]

    with LLM(str(family.folder), tensor_parallel_size=size, **MODES[mode]) as llm:
        first = llm.generate(mixed_prompts(), GREEDY, use_tqdm=False)
        again = llm.generate(mixed_prompts(), GREEDY, use_tqdm=False)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    for outputs in (first, again):
        assert [each.outputs[0].token_ids for each in outputs] == expected
    if mode == "preempted":
        assert stats.totals.preemptions > 0


def counted(llm: LLM, name: str) -> list[float]:
    """The values of a counter's series."""
    [family] = [each for each in llm.get_metrics() if each.name == name]
    return [
        each.value for each in family.samples if isinstance(each.value, int | float)
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("family", "mode"),
    essential(
        product(sorted(EXPERTS), MODES),
        ("qwen3-moe", "preempted"),
    ),
    indirect=["family"],
)
def test_whole_experts_give_the_same(family: Oracle, mode: str) -> None:
    """Each family, in each mode; ranks count all tokens of their experts once."""
    expected = [family.greedy(prompt, COUNT) for prompt in mixed_prompts()]
    options = MODES[mode] | {"tensor_parallel_size": 2, "enable_expert_parallel": True}

    with LLM(str(family.folder), **options) as llm:
        found = [
            llm.generate(mixed_prompts(), GREEDY, use_tqdm=False) for _ in range(2)
        ]
        assert_conserved(llm)
        by_rank = counted(llm, "hookline_expert_tokens")
        tokens = sum(counted(llm, "hookline_scheduled_tokens"))

    for outputs in found:
        assert [each.outputs[0].token_ids for each in outputs] == expected
    assert len(by_rank) == 2 * MODES[mode].get("pipeline_parallel_size", 1)
    assert min(by_rank) > 0
    assert sum(by_rank) == 2 * tokens * layers_with_experts(family)


def layers_with_experts(family: Oracle) -> int:
    config = family.model.config.get_text_config()
    layers: int = config.num_hidden_layers
    dense: int = getattr(config, "first_k_dense_replace", 0)
    return layers - dense
