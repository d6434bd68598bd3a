"""gpt-oss checkpoints with MXFP4 experts are served as the numbers that they hold."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ModelConfig
from hookline_quantized.mxfp4 import dequantize
from hookline_testing.mxfp4_checkpoints import make_mxfp4_checkpoints

GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
PROMPT = [(7 * at) % 300 for at in range(20)]


def test_numbers_of_a_block() -> None:
    """The lower bits come first; a scale of 128 doubles, one of 126 halves."""
    blocks = torch.zeros(1, 2, 16, dtype=torch.uint8)
    blocks[0, 0, 0], blocks[0, 1, 15] = 0x71, 0xA0

    found = dequantize(blocks, torch.tensor([[128, 126]], dtype=torch.uint8))

    assert found.shape == (1, 64)
    assert found[0, [0, 1, 63]].tolist() == [1.0, 12.0, -0.5]
    assert found.abs().sum() == 13.5


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint with quantized experts, and the same numbers in float32."""
    return make_mxfp4_checkpoints(tmp_path)


def tokens_of(folder: Path) -> list[int]:
    config = EngineConfig(
        model=ModelConfig(model=str(folder)),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )
    with LLM.from_config(config) as llm:
        return list(llm.generate([PROMPT], GREEDY)[0].outputs[0].token_ids)


def test_quantized_experts_are_those_of_their_numbers(
    folders: tuple[Path, Path],
) -> None:
    """Greedy output is equal, token for token."""
    packed, plain = folders

    assert tokens_of(packed) == tokens_of(plain)


def test_blocks_without_scales_are_refused(folders: tuple[Path, Path]) -> None:
    """The error names the tensor."""
    path = folders[0] / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.0.mlp.experts.down_proj_scales"]
    save_file(tensors, path, {"format": "pt"})

    with pytest.raises(ModelLoadError, match="down_proj_blocks has no scales"):
        tokens_of(folders[0])
