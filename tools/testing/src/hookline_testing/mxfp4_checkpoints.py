"""A small gpt-oss whose experts are in MXFP4."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from hookline_quantized.mxfp4 import dequantize
from hookline_testing.oracle import make_oracle

_CONFIG = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def make_mxfp4_checkpoints(folder: Path) -> tuple[Path, Path]:
    """Writes a checkpoint with quantized experts, and its numbers in float32."""
    packed, plain = folder / "packed", folder / "plain"
    for each in (packed, plain):
        make_oracle("gpt-oss", each)
    tensors = load_file(plain / "model.safetensors")
    rounded, stored = dict(tensors), dict(tensors)
    for name, weight in tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        blocks, scales = _quantized(weight.transpose(1, 2))
        del stored[name]
        stored[f"{name}_blocks"], stored[f"{name}_scales"] = blocks, scales
        numbers = [dequantize(*each) for each in zip(blocks, scales, strict=True)]
        rounded[name] = torch.stack(numbers).transpose(1, 2).float().contiguous()
    save_file(stored, packed / "model.safetensors", {"format": "pt"})
    save_file(rounded, plain / "model.safetensors", {"format": "pt"})
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = _CONFIG
    (packed / "config.json").write_text(json.dumps(config))
    return packed, plain


def _quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[…, out, in] as the nearest numbers of blocks that none exceeds."""
    groups = weight.unflatten(-1, (-1, 32))
    largest = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    exponents = (largest / 6).log2().ceil()
    scaled = groups / 2**exponents
    codes = (scaled.abs()[..., None] - _MAGNITUDES).abs().argmin(-1) + 8 * (scaled < 0)
    codes = codes.to(torch.uint8)
    scales = (exponents.squeeze(-1) + 127).to(torch.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4, scales
