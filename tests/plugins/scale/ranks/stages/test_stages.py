"""A model whose layers are divided among the stages of a pipeline."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel

from hookline.config import LoadFormat, ModelConfig
from hookline.engine.decoder.forward_batch import IntermediateTensors
from hookline.exceptions import ModelLoadError
from hookline_description.describing import describe
from hookline_models.checkpoints.loading import load_model
from hookline_models.checkpoints.weight_files import TensorShard
from hookline_models.forwards.layer_span import call_model, span_of
from hookline_models.loading.cost import cost_of
from hookline_ranks.sharding.rank_part import RankDivider
from hookline_ranks.stages.stage import Stage, divide_layers
from hookline_testing.oracle import ESSENTIAL_FAMILIES, FAMILIES, Oracle, make_oracle

TOKENS = torch.arange(7, 27)
POSITIONS = torch.arange(20)


def each_family() -> list[object]:
    others = sorted(FAMILIES.keys() - set(ESSENTIAL_FAMILIES))
    return [
        *ESSENTIAL_FAMILIES,
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in others),
    ]


def load_stage(
    folder: Path,
    stage: Stage,
    *,
    load_format: LoadFormat = LoadFormat.SAFETENSORS,
    attention: str = "eager",
) -> PreTrainedModel:
    config = ModelConfig(model=str(folder), load_format=load_format)
    divide = RankDivider(stage=stage)
    return load_model(config, describe(config), 256, attention=attention, divide=divide)


@torch.inference_mode()
def through(stages: list[PreTrainedModel]) -> torch.Tensor:
    """Logits [20, vocabulary] of the last stage."""
    states = None
    for model in stages:
        states = call_model(
            model,
            TOKENS,
            POSITIONS,
            intermediate=None if states is None else IntermediateTensors(states),
        )
    assert states is not None
    return states


@pytest.mark.parametrize("family", each_family())
def test_stages_compute_what_the_whole_model_does(family: str, tmp_path: Path) -> None:
    """To the last bit, by their layers' own modules; each layer is in one stage."""
    oracle = make_oracle(family, tmp_path)
    attention = "sdpa" if family == "falcon-alibi" else "eager"

    stages = [
        load_stage(oracle.folder, Stage(index, 2), attention=attention)
        for index in range(2)
    ]

    with torch.inference_mode():
        expected = oracle.model(TOKENS[None], position_ids=POSITIONS[None]).logits[0]
    assert torch.equal(through(stages), expected)
    spans = [span_of(model) for model in stages]
    assert [each.of(3) for each in spans] == [range(2), range(2, 3)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Tensors that were read from files."""
    found: list[object] = []
    whole = TensorShard.__getitem__

    def spied(self: TensorShard, index: object) -> torch.Tensor:
        found.append(self)
        return whole(self, index)  # type: ignore[arg-type]

    monkeypatch.setattr(TensorShard, "__getitem__", spied)
    return found


def test_a_stage_reads_its_own_weights_alone(llama: Oracle, read: list[object]) -> None:
    """Together the stages read each tensor once, and hold each number once."""
    counts, sizes = [], []
    for index in range(3):
        read.clear()
        model = load_stage(llama.folder, Stage(index, 3))
        counts.append(len(read))
        sizes.append(sum(each.numel() for each in model.parameters()))

    layer = 9  # tensors
    assert counts == [1 + layer, layer, layer + 2]
    assert sum(sizes) == sum(each.numel() for each in llama.model.parameters())


def test_a_tied_output_layer_has_the_embedding_in_the_last_stage(
    tmp_path: Path,
) -> None:
    """The last stage reads the embedding for its output layer, the first for itself."""
    folder = make_oracle("gemma2", tmp_path).folder

    first, middle, last = (load_stage(folder, Stage(index, 3)) for index in range(3))

    head = last.get_output_embeddings()
    assert isinstance(head, torch.nn.Linear)
    embedding = first.get_input_embeddings().get_parameter("weight")
    assert torch.equal(head.weight, embedding)
    assert not any("embed" in name for name, _ in middle.named_parameters())


def test_random_weights_do_not_depend_on_the_stages(llama: Oracle) -> None:
    """A dummy model of two stages is the dummy model of one."""
    whole = load_stage(llama.folder, Stage(), load_format=LoadFormat.DUMMY)
    stages = [
        load_stage(llama.folder, Stage(index, 2), load_format=LoadFormat.DUMMY)
        for index in range(2)
    ]

    assert torch.equal(through(stages), through([whole]))


def test_costs_of_stages_add_up(llama: Oracle) -> None:
    """Floating-point operations and bytes of weights are those of the whole model."""
    whole = cost_of(load_stage(llama.folder, Stage()), [])
    first, last = (
        cost_of(load_stage(llama.folder, Stage(index, 2)), []) for index in range(2)
    )

    assert first.flops_per_token + last.flops_per_token == whole.flops_per_token
    assert (first.flops_per_sample, last.flops_per_sample) == (
        0,
        whole.flops_per_sample,
    )
    assert first.weight_bytes + last.weight_bytes == whole.weight_bytes


def test_more_stages_than_layers_are_refused(llama: Oracle) -> None:
    """The error tells both numbers."""
    with pytest.raises(ModelLoadError, match="4 stages cannot divide 3 layers"):
        load_stage(llama.folder, Stage(0, 4))


@given(
    costs=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    last=st.integers(0, 20),
    stages=st.integers(1, 9),
)
def test_layers_are_divided_evenly(costs: list[int], last: int, stages: int) -> None:
    """Each is in one stage, no stage is empty, and no cut could be moved to gain."""
    if stages > len(costs):
        with pytest.raises(ValueError, match="stages cannot divide"):
            divide_layers(costs, last, stages)
        return

    found = divide_layers(costs, last, stages)

    def most(edges: list[int]) -> int:
        loads = [sum(costs[start:end]) for start, end in pairwise(edges)]
        loads[-1] += last
        return max(loads)

    assert [index for each in found for index in each] == list(range(len(costs)))
    assert min(map(len, found)) >= 1
    edges = [0, *(each.stop for each in found)]
    for at in range(1, stages):
        for moved in (edges[at] - 1, edges[at] + 1):
            if edges[at - 1] < moved < edges[at + 1]:
                assert most([*edges[:at], moved, *edges[at + 1 :]]) >= most(edges)


def test_an_output_layer_counts_as_a_part_of_the_last_stage() -> None:
    """A large vocabulary leaves the last stage fewer layers."""
    assert divide_layers([1] * 8, 4, 2) == [range(6), range(6, 8)]


def test_the_last_stage_gets_the_fewest_of_equally_good_divisions() -> None:
    """Six and six layers with the output layer are as good as seven and five."""
    assert divide_layers([1] * 12, 1, 2) == [range(7), range(7, 12)]
