"""What each rank of a divided model loads, and what it refuses."""

import json
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from hookline.config import Kernels, LoadFormat, ModelConfig
from hookline.exceptions import ConfigError
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_ranks.sharding.rank_part import RankDivider
from hookline_ranks.sharding.rank_reduction import RankReduction
from hookline_ranks.sharding.single_rank_group import SingleRankGroup
from hookline_testing.oracle import Oracle
from hookline_testing.rank_threads import on_ranks, thread_groups

from .conftest import GreedyOnRanks, load_rank

PROMPT = [*range(5, 25), 300, 317]


def changed(oracle: Oracle, folder: Path, **values: object) -> Path:
    """A copy of the model with another configuration and the same weights."""
    config = json.loads((oracle.folder / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").hardlink_to(oracle.folder / "model.safetensors")
    return folder


def test_random_weights_are_those_of_one_rank(
    llama: Oracle, greedy_on_ranks: GreedyOnRanks
) -> None:
    """Two ranks decode what one rank with the same seed decodes."""
    dummy = {"load_format": LoadFormat.DUMMY}

    [alone] = greedy_on_ranks(llama.folder, 1, PROMPT, 8, **dummy)
    found = greedy_on_ranks(llama.folder, 2, PROMPT, 8, **dummy)

    assert found == [alone, alone]


def test_a_vocabulary_is_padded(
    llama: Oracle, greedy_on_ranks: GreedyOnRanks, tmp_path: Path
) -> None:
    """The second of two ranks has a row more than there are tokens."""
    weights = load_file(llama.folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = weights[name][:319].contiguous()
    config = json.loads((llama.folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 319}))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})

    [alone] = greedy_on_ranks(tmp_path, 1, PROMPT, 8)
    found = greedy_on_ranks(tmp_path, 2, PROMPT, 8)

    assert found == [alone, alone]


def test_ranks_load_without_each_other(llama: Oracle) -> None:
    """No rank calls another before it joins; then two a layer, and two a step."""
    groups = thread_groups(2)
    ranks = [load_rank(llama.folder, group, Kernels.AUTO) for group in groups]

    assert [group.calls for group in groups] == [0, 0]
    for rank in ranks:
        rank.join()
    logits = on_ranks([partial(rank.logits, PROMPT, 0) for rank in ranks])

    layers = len(ranks[0].loaded.layers)
    assert [group.calls for group in groups] == [2 * layers + 2] * 2
    assert [each.shape for each in logits] == [(1, 320), (0, 320)]


def test_a_lonely_rank_computes_steps_of_its_size(llama: Oracle) -> None:
    """Its kernels can be tried without the others; its logits mean nothing."""
    rank = load_rank(llama.folder, SingleRankGroup(2), Kernels.AUTO)
    rank.join()

    logits = rank.logits(PROMPT, 0)

    assert rank.loaded.layers[0].num_heads == 2
    assert logits.shape == (1, 320)
    assert logits.isfinite().all()


def test_two_ranks_cost_what_one_does(llama: Oracle) -> None:
    """Both together, but for the norms, which each has; their digests differ."""
    [alone] = [load_rank(llama.folder, group) for group in thread_groups(1)]
    first, second = (load_rank(llama.folder, group) for group in thread_groups(2))
    whole, half = alone.loaded, first.loaded

    assert half.layers[0].num_heads * 2 == whole.layers[0].num_heads
    for name in ("flops_per_token", "flops_per_pair", "flops_per_sample"):
        assert getattr(half.shape.cost, name) == getattr(whole.shape.cost, name)
    assert half.shape.cost.kv_bytes_per_token == whole.shape.cost.kv_bytes_per_token
    assert 1 <= half.shape.cost.weight_bytes / whole.shape.cost.weight_bytes < 1.01
    assert half.fingerprint != second.loaded.fingerprint


@pytest.mark.parametrize(
    ("change", "size", "reason"),
    [
        ({"model_type": "stablelm"}, 2, "models of type stablelm cannot be divided"),
        ({}, 3, "3 ranks cannot divide 4 attention heads"),
        ({"num_key_value_heads": 3}, 2, "2 ranks cannot divide or repeat 3 heads"),
        ({"intermediate_size": 97}, 2, "2 ranks cannot divide intermediate_size, 97"),
    ],
)
def test_models_that_cannot_be_divided_are_refused(
    llama: Oracle, tmp_path: Path, change: dict[str, object], size: int, reason: str
) -> None:
    """The error names the option, and what the ranks cannot divide."""
    folder = changed(llama, tmp_path, **change)

    with pytest.raises(ConfigError, match=reason) as caught:
        load_rank(folder, thread_groups(size)[0])

    assert caught.value.option == "tensor-parallel-size"


def test_a_rank_reads_only_its_part(llama: Oracle) -> None:
    """Half of each matrix, and all of each norm."""
    stored = load_file(llama.folder / "model.safetensors").values()
    matrices, norms = (
        sum(each.numel() for each in stored if (each.ndim > 1) == is_matrix)
        for is_matrix in (True, False)
    )
    config = ModelConfig(model=str(llama.folder))
    reduce = RankReduction(thread_groups(2)[1])

    model = load_model(config, describe(config), 64, divide=RankDivider(reduce=reduce))

    own = sum(each.numel() for each in model.parameters())
    assert own == matrices // 2 + norms
