"""Ranks that share a model give the output of `transformers`."""

from itertools import product
from pathlib import Path

import pytest

from hookline.config import Kernels
from hookline.exceptions import ConfigError
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, make_oracle

from .conftest import GreedyOnRanks

PROMPT = [*range(5, 25), 300, 317]
COUNT = 12
NOT_REPEATED = {"falcon-new"}
"""Their KV heads lie among their query heads, and cannot be repeated."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kernels", "size"),
    essential(
        product(sorted(FAMILIES), Kernels, [2, 4]),
        *product(
            ["bloom", "deepseek-v2", "falcon", "gpt2", "mpt"], [Kernels.TORCH], [2]
        ),
        *product(["gemma2", "gpt-oss", "llama", "phi3"], [Kernels.AUTO], [2]),
        ("qwen3-moe", Kernels.AUTO, 4),
    ),
)
def test_greedy_output_equals_generate(
    greedy_on_ranks: GreedyOnRanks,
    family: str,
    kernels: Kernels,
    size: int,
    tmp_path: Path,
) -> None:
    """Of each family, with kernels and without; four ranks repeat two KV heads."""
    oracle = make_oracle(family, tmp_path)
    if family in NOT_REPEATED and size == 4:
        with pytest.raises(ConfigError, match="cannot divide its 2 KV heads"):
            greedy_on_ranks(tmp_path, size, PROMPT, COUNT, kernels=kernels)
        return

    found = greedy_on_ranks(tmp_path, size, PROMPT, COUNT, kernels=kernels)

    assert found == [oracle.greedy(PROMPT, COUNT)] * size
