"""Ranks divide quantized weights between groups that share scales."""

from functools import partial
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import LlamaConfig, LlamaForCausalLM

from hookline.config import Dtype, EngineConfig, Kernels, ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline_description.locating import located
from hookline_testing.essential import essential
from hookline_testing.fp8_checkpoints import FLOAT_LAYOUTS, quantize_floats
from hookline_testing.gguf_files import GgufFile
from hookline_testing.oracle import SHAPE, Oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize
from hookline_testing.rank_threads import on_ranks, thread_groups

from .conftest import GreedyOnRanks, load_rank

PROMPT = [*range(5, 25), 300, 317]
UNEVEN = {name for name in LAYOUTS if name.endswith("act-order")}
"""Their groups take inputs from everywhere."""


def make(folder: Path, width: int = 128) -> Oracle:
    """A model whose ranks' inputs are whole groups."""
    torch.manual_seed(7)
    sizes = {"intermediate_size": width, "num_key_value_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**SHAPE | sizes))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(3.0)
    model.eval().save_pretrained(folder)
    return Oracle(folder, model)


@pytest.mark.parametrize(
    "name", essential(sorted(LAYOUTS.keys() - UNEVEN), "awq", "pack-quantized")
)
def test_checkpoints_of_each_format(
    greedy_on_ranks: GreedyOnRanks, name: str, tmp_path: Path
) -> None:
    """Two ranks give the greedy tokens of the dequantized weights."""
    oracle = make(tmp_path)
    quantize(oracle, tmp_path, LAYOUTS[name])

    found = greedy_on_ranks(tmp_path, 2, PROMPT, 8, kernels=Kernels.AUTO)

    assert found == [oracle.greedy(PROMPT, 8)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deepseek", "autofp8", "channel"])
def test_checkpoints_in_8_bit_floats(
    greedy_on_ranks: GreedyOnRanks, name: str, tmp_path: Path
) -> None:
    """Scales of blocks, of tensors and of outputs are divided with the weights."""
    oracle = make(tmp_path)
    quantize_floats(oracle, tmp_path, FLOAT_LAYOUTS[name])

    found = greedy_on_ranks(tmp_path, 2, PROMPT, 8, kernels=Kernels.AUTO)

    assert found == [oracle.greedy(PROMPT, 8)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_K], ids=lambda kind: kind.name)
def test_gguf_files(
    greedy_on_ranks: GreedyOnRanks,
    kind: Kind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks are divided, and rows are in the order of a whole model's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A block of Q4_K has 256 inputs.
    sizes = {"hidden_size": 512, "intermediate_size": 512, "num_key_value_heads": 4}
    file = GgufFile(tmp_path, LlamaConfig(**SHAPE | sizes), kind)
    model = ModelConfig(model=str(file.write()))
    folder = Path(located(EngineConfig(model=model)).model.model)

    found = greedy_on_ranks(
        folder, 2, PROMPT, 8, kernels=Kernels.AUTO, dtype=Dtype.FLOAT32
    )

    assert found == [Oracle(folder, file.model).greedy(PROMPT, 8)] * 2


@pytest.mark.parametrize(
    ("name", "width", "reason"),
    [
        ("awq", 96, "must be multiples of 32"),
        *(
            (name, 128, r"ranks cannot divide its \d+ inputs")
            for name in sorted(UNEVEN)
        ),
    ],
)
def test_groups_that_ranks_share_are_refused(
    name: str, width: int, reason: str, tmp_path: Path
) -> None:
    """Three groups cannot be divided, nor groups of inputs from everywhere."""
    quantize(make(tmp_path, width), tmp_path, LAYOUTS[name])

    with pytest.raises(ModelLoadError, match=reason):
        load_rank(tmp_path, thread_groups(2)[0], Kernels.AUTO)


@pytest.mark.parametrize("bits", [Quantization.W8A16, Quantization.W4A16])
def test_ranks_quantize_their_own_parts(bits: Quantization, tmp_path: Path) -> None:
    """Each has scales of its own inputs, so that two err about as much as one."""
    oracle = make(tmp_path)
    with torch.inference_mode():
        exact = oracle.model(torch.tensor([PROMPT])).logits[0, -1:]

    alone, together = (logits(tmp_path, size, bits) for size in (1, 2))

    assert 0 < (together - exact).norm() <= 1.5 * (alone - exact).norm()


def logits(folder: Path, size: int, bits: Quantization) -> torch.Tensor:
    """[1, vocabulary] behind the prompt."""
    groups = thread_groups(size)
    ranks = [
        load_rank(folder, each, Kernels.AUTO, quantization=bits) for each in groups
    ]
    for rank in ranks:
        assert rank.loaded.quantization
        rank.join()
    return on_ranks([partial(rank.logits, PROMPT, 0) for rank in ranks])[0]
