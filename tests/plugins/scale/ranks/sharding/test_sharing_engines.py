"""Processes of engines that share experts give the output of `transformers`."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, SamplingParams
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.oracle_prompts import mixed_prompts

pytestmark = pytest.mark.slow

COUNT = 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=COUNT)
MODES: Mapping[str, dict[str, Any]] = {
    "batched": {},
    "chunked": {"max_num_batched_tokens": 7, "max_num_seqs": 4},
    "preempted": {
        "block_size": 4,
        "num_kv_blocks": 24,
        "max_model_len": 96,
        "max_num_batched_tokens": 31,
        "max_num_seqs": 8,
        "async_scheduling": True,
    },
    "no-prefix-cache": {"enable_prefix_caching": False},
    "drafted": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
    "processes": {"executor": "mp"},
    "offloaded": {
        "block_size": 4,
        "num_kv_blocks": 26,
        "max_model_len": 96,
        "kv_transfer_config": {
            "kv_connector": "cpu_offload",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 1 << 24},
        },
    },
    "two-ranks": {"tensor_parallel_size": 2},
}
FAMILIES = ("deepseek-v2", "gpt-oss", "mixtral", "qwen3-moe")


@pytest.fixture(scope="module")
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    folder: Path = tmp_path_factory.mktemp(request.param)
    return make_oracle(request.param, folder)


def counted(llm: LLM, name: str) -> list[float]:
    """The values of a counter's series."""
    [family] = [each for each in llm.get_metrics() if each.name == name]
    return [
        each.value for each in family.samples if isinstance(each.value, int | float)
    ]


@pytest.mark.parametrize(
    ("family", "mode"),
    essential(
        product(FAMILIES, MODES),
        ("qwen3-moe", "preempted"),
    ),
    indirect=["family"],
)
def test_greedy_output_equals_generate(family: Oracle, mode: str) -> None:
    """Twice over, and a single prompt, for which one engine has no work."""
    expected = [family.greedy(prompt, COUNT) for prompt in mixed_prompts()]
    options: dict[str, Any] = {
        "data_parallel_size": 2,
        "enable_expert_parallel": True,
        "load_balancing": "round-robin",
        "num_kv_blocks": 256,
        "threads": 1,
        "heartbeat_seconds": 0.2,
        **MODES[mode],
    }

    with LLM(str(family.folder), **options) as llm:
        found = [
            llm.generate(mixed_prompts(), GREEDY, use_tqdm=False) for _ in range(2)
        ]
        [single] = llm.generate([mixed_prompts()[5]], GREEDY, use_tqdm=False)
        llm.reset_prefix_cache()  # whose answers have the engines' latest totals
        assert_conserved(llm)
        by_rank = counted(llm, "hookline_expert_tokens")
        tokens = sum(counted(llm, "hookline_scheduled_tokens"))
        dummies = sum(counted(llm, "hookline_dummy_steps"))

    for outputs in found:
        assert [each.outputs[0].token_ids for each in outputs] == expected
    assert single.outputs[0].token_ids == expected[5]
    assert len(by_rank) == 2 * MODES[mode].get("tensor_parallel_size", 1)
    assert min(by_rank) > 0
    config = family.model.config.get_text_config()
    layers = config.num_hidden_layers - getattr(config, "first_k_dense_replace", 0)
    assert sum(by_rank) == 2 * tokens * layers
    assert dummies > 0
