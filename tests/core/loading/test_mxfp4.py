"""gpt-oss checkpoints with MXFP4 experts are served as the numbers that they hold."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ModelConfig
from hookline.models.mxfp4 import dequantize
from hookline_testing.oracle import make_oracle

CONFIG = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
PROMPT = [(7 * at) % 300 for at in range(20)]


def quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[…, out, in] as the nearest numbers of blocks that none exceeds."""
    groups = weight.unflatten(-1, (-1, 32))
    largest = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    exponents = (largest / 6).log2().ceil()
    scaled = groups / 2**exponents
    codes = (scaled.abs()[..., None] - MAGNITUDES).abs().argmin(-1) + 8 * (scaled < 0)
    codes = codes.to(torch.uint8)
    scales = (exponents.squeeze(-1) + 127).to(torch.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4, scales


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
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    for folder in (packed, plain):
        make_oracle("gpt-oss", folder)
    tensors = load_file(plain / "model.safetensors")
    rounded, stored = dict(tensors), dict(tensors)
    for name, weight in tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        blocks, scales = quantized(weight.transpose(1, 2))
        del stored[name]
        stored[f"{name}_blocks"], stored[f"{name}_scales"] = blocks, scales
        numbers = [dequantize(*each) for each in zip(blocks, scales, strict=True)]
        rounded[name] = torch.stack(numbers).transpose(1, 2).float().contiguous()
    save_file(stored, packed / "model.safetensors", {"format": "pt"})
    save_file(rounded, plain / "model.safetensors", {"format": "pt"})
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = CONFIG
    (packed / "config.json").write_text(json.dumps(config))
    return packed, plain


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
