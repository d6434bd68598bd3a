"""Ranks that share a model give the output of `transformers`."""

from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING, PreTrainedConfig

from hookline.config import Kernels
from hookline.exceptions import ConfigError
from hookline_ranks.sharding.families import FAMILIES as DIVIDED
from hookline_testing.essential import essential
from hookline_testing.oracle import EXPERTS, FAMILIES, SHAPE, make_oracle

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


OTHERS = sorted(DIVIDED.keys() - {make().model_type for make in FAMILIES.values()})
"""Families that are divided, and have no model for other tests."""
_COUNTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "shared_expert_intermediate_size": 64,
}


def small(model_type: str) -> PreTrainedConfig:
    """A configuration with those of the usual sizes that the family has."""
    kind = CONFIG_MAPPING[model_type]
    known = {field.name for field in fields(kind)}
    sizes = {**EXPERTS, **_COUNTS}
    return kind(**SHAPE, **{name: sizes[name] for name in sizes.keys() & known})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kernels", "size"),
    essential(product(OTHERS, Kernels, [2, 4]), ("cohere", Kernels.AUTO, 2)),
)
def test_other_families_are_divided(
    greedy_on_ranks: GreedyOnRanks,
    family: str,
    kernels: Kernels,
    size: int,
    tmp_path: Path,
) -> None:
    """All that are listed: none is divided on trust."""
    oracle = make_oracle(family, tmp_path, config=small(family))

    found = greedy_on_ranks(tmp_path, size, PROMPT, COUNT, kernels=kernels)

    assert found == [oracle.greedy(PROMPT, COUNT)] * size
