"""Ranks that exchange over gloo give the output of `transformers`."""

from pathlib import Path

import pytest

from hookline.config import Kernels
from hookline_testing.gloo_threads import gloo_groups
from hookline_testing.oracle import make_oracle

from .conftest import GreedyOnRanks

PROMPT = [*range(5, 25), 300, 317]
COUNT = 12


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3-moe"])
@pytest.mark.parametrize("kernels", Kernels)
def test_greedy_output_equals_generate(
    greedy_on_ranks: GreedyOnRanks, family: str, kernels: Kernels, tmp_path: Path
) -> None:
    """With kernels and without, although no step is recorded."""
    oracle = make_oracle(family, tmp_path)

    found = greedy_on_ranks(
        tmp_path, 2, PROMPT, COUNT, make_groups=gloo_groups, kernels=kernels
    )

    assert found == [oracle.greedy(PROMPT, COUNT)] * 2
