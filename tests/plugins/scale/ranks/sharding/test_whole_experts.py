"""Ranks that have whole experts give the output of `transformers`."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from transformers import (
    Ernie4_5_MoeConfig,
    ExaoneMoeConfig,
    Glm4MoeConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2MoeConfig,
    Qwen3MoeConfig,
    SolarOpenConfig,
)

from hookline.config import Kernels, LoadFormat, ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_models.checkpoints.weight_files import WeightFiles
from hookline_models.loading.cost import num_experts_of
from hookline_ranks.sharding.families import FAMILIES as DIVIDED
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.rank_part import RankDivider
from hookline_ranks.sharding.rank_reduction import RankReduction
from hookline_testing.essential import essential
from hookline_testing.mxfp4_checkpoints import make_mxfp4_checkpoints
from hookline_testing.oracle import EXPERTS, FAMILIES, SHAPE, Oracle, make_oracle
from hookline_testing.rank_threads import on_ranks, thread_groups

from .conftest import load_rank

PROMPT = [*range(5, 25), 300, 317]
COUNT = 12
LAYERS, CHOSEN = 3, 2
SHARED: dict[str, Any] = {"n_routed_experts": 4, "n_shared_experts": 1}
OTHERS: Mapping[str, PreTrainedConfig] = {
    "ernie4_5_moe": Ernie4_5_MoeConfig(
        **SHAPE, moe_num_experts=4, moe_k=2, moe_intermediate_size=48
    ),
    "exaone_moe": ExaoneMoeConfig(**SHAPE, **EXPERTS, num_experts=4),
    "glm4_moe": Glm4MoeConfig(**SHAPE, **EXPERTS, **SHARED),
    "qwen2_moe": Qwen2MoeConfig(
        **SHAPE,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=48,
        shared_expert_intermediate_size=64,
    ),
    "solar_open": SolarOpenConfig(**SHAPE, **EXPERTS, **SHARED),
}
"""Families that have no model for other tests."""
CONFIGS: Mapping[str, PreTrainedConfig] = {
    **{family: make() for family, make in FAMILIES.items() if num_experts_of(make())},
    **OTHERS,
}


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return make_oracle("qwen3-moe", tmp_path_factory.mktemp("qwen3-moe"))


def greedy(
    folder: Path, size: int, **options: object
) -> tuple[list[list[int]], list[int]]:
    """Returns each rank's tokens, and what it computed in its experts."""
    told: list[list[int]] = [[] for _ in range(size)]
    ranks = [
        load_rank(folder, group, count_expert_tokens=told[at].append, **options)  # type: ignore[arg-type]
        for at, group in enumerate(thread_groups(size))
    ]
    for at, rank in enumerate(ranks):
        rank.join()
        told[at].clear()  # what was computed while it was loaded
    found = on_ranks([partial(rank.greedy, PROMPT, COUNT) for rank in ranks])
    return found, [sum(each) for each in told]


def alone(folder: Path, **options: object) -> list[int]:
    """Returns what one rank says, which has everything."""
    rank = load_rank(folder, thread_groups(1)[0], **options)  # type: ignore[arg-type]
    rank.join()
    [found] = on_ranks([partial(rank.greedy, PROMPT, COUNT)])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kernels", "size"),
    essential(
        product(sorted(CONFIGS), Kernels, [2, 4]),
        *product(["gpt-oss", "qwen3-moe"], [Kernels.AUTO], [2]),
        *product(["deepseek-v3", "mixtral", "qwen2_moe"], [Kernels.TORCH], [2]),
    ),
)
def test_greedy_output_equals_generate(
    family: str, kernels: Kernels, size: int, tmp_path: Path
) -> None:
    """Of each family with experts; four ranks have one expert each."""
    oracle = make_oracle(family, tmp_path, config=CONFIGS[family])

    found, _ = greedy(tmp_path, size, kernels=kernels)

    assert found == [oracle.greedy(PROMPT, COUNT)] * size


def test_all_families_with_experts_are_tried() -> None:
    """Those whose configurations have a number of experts."""
    known = {config.model_type for config in CONFIGS.values()}

    assert known == {name for name in DIVIDED if "moe" in name} | {
        *("deepseek_v2", "deepseek_v3", "gpt_oss", "mixtral", "solar_open")
    }


def test_experts_may_be_divided_unevenly(tmp_path: Path) -> None:
    """Of five, the first rank has three; together they compute all that is chosen."""
    config = Qwen3MoeConfig(**SHAPE, **EXPERTS, num_experts=5)
    oracle = make_oracle("qwen3-moe", tmp_path, config=config)

    found, computed = greedy(tmp_path, 2)

    assert found == [oracle.greedy(PROMPT, COUNT)] * 2
    assert min(computed) > 0
    assert sum(computed) == (len(PROMPT) + COUNT) * CHOSEN * LAYERS


THREE: dict[str, Any] = {
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 16,
}
"""Sizes that three ranks can divide."""


def test_experts_need_no_width_that_ranks_can_divide(tmp_path: Path) -> None:
    """Three ranks have four experts of width 44."""
    config = MixtralConfig(
        **SHAPE | THREE | {"intermediate_size": 44}, num_local_experts=4
    )
    oracle = make_oracle("mixtral", tmp_path, config=config)

    found, _ = greedy(tmp_path, 3)

    assert found == [oracle.greedy(PROMPT, COUNT)] * 3
    with pytest.raises(ConfigError, match="cannot divide intermediate_size, 44"):
        load_rank(tmp_path, thread_groups(3)[0])


def test_layers_beside_experts_are_still_divided(tmp_path: Path) -> None:
    """A shared expert of width 44 cannot be divided by three, and is named."""
    sizes = SHAPE | EXPERTS | SHARED | THREE | {"moe_intermediate_size": 44}
    make_oracle("glm4_moe", tmp_path, config=Glm4MoeConfig(**sizes))

    with pytest.raises(ModelLoadError, match=r"shared_experts.*cannot divide 44"):
        greedy(tmp_path, 3)


def test_experts_in_4_bits_are_whole(tmp_path: Path) -> None:
    """Three groups that share scales: ranks could not divide an expert between them."""
    packed, plain = make_mxfp4_checkpoints(tmp_path)
    expected = alone(plain)

    found, _ = greedy(packed, 2)

    assert found == [expected, expected]


def test_random_weights_are_those_of_one_rank(qwen: Oracle) -> None:
    """Two ranks decode what one rank with the same seed decodes."""
    dummy = {"load_format": LoadFormat.DUMMY}
    expected = alone(qwen.folder, **dummy)

    found, _ = greedy(qwen.folder, 2, **dummy)

    assert found == [expected, expected]


def test_a_rank_reads_only_its_experts(qwen: Oracle) -> None:
    """No tensor of the others is opened; two ranks have as many weights as one."""
    config = ModelConfig(model=str(qwen.folder))
    reduce = RankReduction(thread_groups(2)[1])
    plan = ShardingPlan(rank=1, size=2, experts=range(2, 4))

    with WeightFiles(qwen.folder) as files:
        names = [name for name in files.shards(plan) if ".experts." in name]
    divide = RankDivider(reduce=reduce, count_expert_tokens=print)
    model = load_model(config, describe(config), 64, divide=divide)

    assert names
    assert all(f".experts.{at}." not in name for name in names for at in (0, 1))
    own = {
        name: weight for name, weight in model.named_parameters() if ".experts." in name
    }
    assert {tuple(weight.shape) for weight in own.values()} == {
        (2, 2 * 48, 64),
        (2, 64, 48),
    }


def test_ranks_cost_what_one_does(tmp_path: Path) -> None:
    """Also if one has more experts than the other; each has all of the routers."""
    config = Qwen3MoeConfig(**SHAPE, **EXPERTS, num_experts=5)
    make_oracle("qwen3-moe", tmp_path, config=config)

    whole = load_rank(tmp_path, thread_groups(1)[0]).loaded.shape.cost
    parts = [
        load_rank(tmp_path, group, count_expert_tokens=print).loaded.shape.cost
        for group in thread_groups(2)
    ]

    routers = LAYERS * 5 * SHAPE["hidden_size"]
    assert [part.flops_per_token - whole.flops_per_token for part in parts] == [
        2 * routers
    ] * 2
    assert parts[0].weight_bytes == parts[1].weight_bytes
    assert 1 < parts[0].weight_bytes / whole.weight_bytes < 1.02


@pytest.mark.parametrize(
    ("family", "size", "reason"),
    [
        ("llama", 2, "models of type llama have no experts"),
        ("qwen3-moe", 8, "8, exceeds the number of experts, 4"),
    ],
)
def test_models_without_enough_experts_are_refused(
    family: str, size: int, reason: str, tmp_path: Path
) -> None:
    """The error names the option."""
    make_oracle(family, tmp_path)

    with pytest.raises(ConfigError, match=reason) as caught:
        load_rank(tmp_path, thread_groups(size)[0], count_expert_tokens=print)

    assert caught.value.option == "enable-expert-parallel"
