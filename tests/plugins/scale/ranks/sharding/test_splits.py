"""Which part of a tensor each rank gets."""

import pytest
import torch

from hookline_models.checkpoints.cut import Cut
from hookline_models.checkpoints.weight_files import stored_parts
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.split import INPUTS, Split

TABLE = torch.arange(24.0).view(12, 2)


def parts(split: Split, tensor: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Each rank's part of a weight."""
    cuts = [split.cut(tensor.shape, rank=rank, size=size) for rank in range(size)]
    return [read(cut, tensor) for cut in cuts]


def read(cut: Cut, tensor: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.Module()
    layer.register_buffer("weight", tensor)

    class Fixed(ShardingPlan):
        def cut(self, name: str, shape: object) -> Cut:
            del name, shape
            return cut

    return stored_parts(layer, Fixed())["weight"][...]


def test_each_segment_is_divided() -> None:
    """Of 6 queries, 3 keys and 3 values each of three ranks has 2, 1 and 1."""
    found = parts(Split(segments=(6, 3, 3)), TABLE, 3)

    assert [part[:, 0].tolist() for part in found] == [
        [0, 2, 12, 18],
        [4, 6, 14, 20],
        [8, 10, 16, 22],
    ]


def test_few_units_are_repeated() -> None:
    """Of two heads, the first two of four ranks have one, the others the other."""
    found = parts(Split(segments=(2,)), TABLE, 4)

    assert [len(part) for part in found] == [6] * 4
    assert torch.equal(found[0], found[1])
    assert torch.equal(torch.cat(found[1:3]), TABLE)


def test_inputs_are_divided_along_the_last_dimension() -> None:
    """A row-parallel weight."""
    found = parts(Split(dim=INPUTS), TABLE, 2)

    assert torch.equal(torch.cat(found, 1), TABLE)


def test_padding_follows_the_last_rows() -> None:
    """Twelve rows on five ranks are three each, then three zeros."""
    found = parts(Split(is_padded=True), TABLE, 5)

    assert torch.equal(torch.cat(found)[:12], TABLE)
    assert [part.abs().sum().item() > 0 for part in found] == [True] * 4 + [False]
    assert {len(part) for part in found} == {3}


def test_one_rank_adds_the_bias_of_a_sum() -> None:
    """The others have zeros in its place."""
    split, bias = Split(dim=INPUTS, is_summed=True), torch.arange(1.0, 5.0)

    found = [
        read(split.cut(bias.shape, rank=rank, size=2, is_bias=True), bias)
        for rank in range(2)
    ]

    assert torch.equal(found[0], bias)
    assert torch.equal(found[1], torch.zeros(4))


@pytest.mark.parametrize(("heads", "size"), [(3, 2), (4, 6)])
def test_uneven_parts_are_an_error(heads: int, size: int) -> None:
    """Heads are neither split nor repeated unevenly."""
    with pytest.raises(ValueError, match=f"{size} ranks cannot divide"):
        Split(segments=(heads,)).cut((12, 2), rank=0, size=size)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.3.mlp.experts.7.w1.weight", (8, 4)),
        ("layers.3.mlp.experts.7.w1.bias", (8,)),
        ("transformer.h.0.mlp.experts.0.w1.weight", (8, 4)),
        ("transformer.wte.weight", (8, 4)),
        ("lm_head.weight", (8, 4)),
    ],
)
def test_names_of_files_and_models_are_found(name: str, shape: tuple[int, ...]) -> None:
    """Whatever the prefix, and whichever expert it is of."""
    plan = ShardingPlan(rank=1, size=2, splits={"mlp.experts.*.w1": Split()})

    assert plan.cut(name, shape).pieces == ((4, 8),)


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "model.layers.0.input_layernorm.weight"]
)
def test_other_tensors_are_whole(name: str) -> None:
    """Every rank has all of them."""
    plan = ShardingPlan(rank=1, size=2, splits={"mlp.up_proj": Split()})

    assert plan.cut(name, (8, 4)) == Cut()
