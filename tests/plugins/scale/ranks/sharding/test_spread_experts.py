"""Ranks of several engines, which have all experts together, as threads."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch

from hookline.config import EngineConfig, ModelConfig
from hookline.exceptions import ConfigError
from hookline.transport.native import connect
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_models.checkpoints.weight_files import WeightFiles
from hookline_ranks.experts.expert_placement import ExpertPlace
from hookline_ranks.experts.shared_experts import SharedExperts
from hookline_ranks.experts.single_rank_experts import SingleRankExperts
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.rank_part import RankDivider
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.rank_threads import on_ranks, thread_groups
from hookline_testing.sharing_engines import expert_links

from .conftest import RankedModel, load_rank

PROMPTS = ([*range(5, 25), 300, 317], [7, 8, 9])
COUNTS = (10, 4)
"""The second engine has less to do, and then assists."""


def decode(
    rank: RankedModel, experts: SharedExperts, prompt: list[int], count: int
) -> list[int]:
    found = rank.greedy(prompt, count)
    for _ in range(COUNTS[0] - count):
        experts.assist()
    return found


@pytest.mark.parametrize(
    ("family", "size"),
    essential(
        product(["deepseek-v3", "gpt-oss", "mixtral", "qwen3-moe"], [1, 2]),
        ("qwen3-moe", 2),
        ("deepseek-v3", 1),
    ),
)
def test_greedy_output_equals_generate(family: str, size: int, tmp_path: Path) -> None:
    """Of two engines with one or two ranks each, which have a half or a quarter."""
    oracle = make_oracle(family, tmp_path)
    runs: list[Callable[[], list[int]]] = []
    with expert_links(2) as links:
        groups = [thread_groups(size) for _ in range(2)]
        for engine, own in product(range(2), range(size)):
            place = ExpertPlace(rank=engine * size + own, size=2 * size, engines=2)
            experts = SharedExperts(links[0].tokens, place, max_tokens=64)
            rank = load_rank(tmp_path, groups[engine][own], experts=experts)
            rank.join()
            given = (PROMPTS[engine], COUNTS[engine])
            runs.append(partial(decode, rank, experts, *given))

        found = on_ranks(runs)

    expected = [
        oracle.greedy(prompt, count)
        for prompt, count in zip(PROMPTS, COUNTS, strict=True)
    ]
    assert found == [each for each in expected for _ in range(size)]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return make_oracle("qwen3-moe", tmp_path_factory.mktemp("qwen3-moe"))


def test_an_engine_of_one_rank_reads_only_its_experts(qwen: Oracle) -> None:
    """No tensor of the others is opened; attention is whole."""
    config = ModelConfig(model=str(qwen.folder))
    place = ExpertPlace(rank=1, size=2, engines=2)

    with WeightFiles(qwen.folder) as files:
        names = files.shards(ShardingPlan(experts=range(2, 4)))
    model = load_model(
        config,
        describe(config),
        64,
        divide=RankDivider(expert_group=SingleRankExperts(place)),
    )

    assert names
    assert not any(f".experts.{at}." in name for name in names for at in (0, 1))
    shapes = {
        name.partition(".layers.0.")[2]: tuple(weight.shape)
        for name, weight in model.named_parameters()
    }
    assert shapes["mlp.experts.inner.down_proj"] == (2, 64, 48)
    assert shapes["self_attn.q_proj.weight"] == (64, 64)


def test_more_ranks_than_experts_are_refused(qwen: Oracle) -> None:
    """The error says which options give the number."""
    config = ModelConfig(model=str(qwen.folder))
    place = ExpertPlace(rank=0, size=6, engines=3)

    with pytest.raises(ConfigError, match=r"data-parallel-size times tensor.*6, exc"):
        load_model(
            config,
            describe(config),
            64,
            divide=RankDivider(expert_group=SingleRankExperts(place)),
        )


def test_random_weights_are_those_of_one_rank(qwen: Oracle) -> None:
    """Each of two engines has half of the experts that one would make."""
    config = ModelConfig(model=str(qwen.folder), load_format="dummy")  # type: ignore[arg-type]
    whole = load_model(config, describe(config), 64)
    name = "mlp.experts.down_proj"
    expected = whole.get_decoder().layers[0].get_parameter(name)

    for rank in range(2):
        place = ExpertPlace(rank=rank, size=2, engines=2)
        part = load_model(
            config,
            describe(config),
            64,
            divide=RankDivider(expert_group=SingleRankExperts(place)),
        )
        found = part.get_decoder().layers[0].mlp.experts.inner.down_proj
        assert torch.equal(found, expected[2 * rank : 2 * rank + 2])


def test_an_engine_costs_what_its_tokens_do(qwen: Oracle) -> None:
    """Products of its tokens count wherever they are, and bytes of its own experts."""
    whole = load_rank(qwen.folder, None).loaded.shape.cost
    place = ExpertPlace(rank=0, size=2, engines=2)
    part = load_rank(
        qwen.folder, None, experts=SingleRankExperts(place)
    ).loaded.shape.cost

    experts = 3 * 4 * 3 * 64 * 48
    assert part.flops_per_token == whole.flops_per_token
    assert whole.weight_bytes - part.weight_bytes == 4 * experts // 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "requires tensor-parallel-size or data-parallel-size of at least 2"),
        (
            {"data_parallel_size": 2, "pipeline_parallel_size": 2},
            "with pipeline-parallel-size",
        ),
        ({"data_parallel_size": 2, "executor": "simulated"}, "not simulated"),
        ({"data_parallel_size": 2, "data_parallel_rank": 1}, "data-parallel-rank"),
        (
            {
                "data_parallel_size": 2,
                "data_parallel_hybrid_lb": True,
                "data_parallel_size_local": 1,
            },
            "data-parallel-hybrid-lb",
        ),
        ({"data_parallel_size": 2, "data_parallel_size_local": 1}, "on this machine"),
        (
            {"data_parallel_size": 2, "data_parallel_backend": "ray"},
            "data-parallel-backend ray",
        ),
        ({"data_parallel_size": 64, "tensor_parallel_size": 2}, "at most 64, not 128"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    options: dict[str, object], reason: str
) -> None:
    """By the option's name, and with what it cannot be combined with."""
    with pytest.raises(ConfigError, match=reason) as caught:
        EngineConfig.from_options(enable_expert_parallel=True, **options)

    assert caught.value.option == "enable-expert-parallel"


def test_engines_of_one_process_are_refused() -> None:
    """One thread could not compute the steps of two engines at the same time."""
    config = EngineConfig.from_options(
        enable_expert_parallel=True, data_parallel_size=2, in_process=True
    )

    with pytest.raises(ConfigError, match="with in-process") as caught:
        connect(config)

    assert caught.value.option == "enable-expert-parallel"


def test_engines_that_share_experts_do_not_come_and_go() -> None:
    """Autoscale is refused, also where one engine begins alone."""
    with pytest.raises(ConfigError, match="cannot come and go") as caught:
        EngineConfig.from_options(
            enable_expert_parallel=True, tensor_parallel_size=2, autoscale="1:2"
        )

    assert caught.value.option == "autoscale"
