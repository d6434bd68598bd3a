"""Writes small checkpoints with weights in 8-bit floats, as the formats have them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from hookline_testing.oracle import Oracle

MOST = 448.0
"""The largest E4M3 number."""
E4M3 = torch.float8_e4m3fn


@dataclass(frozen=True)
class FloatLayout:
    """One variant: its configuration, and how it stores a layer's scales.

    Attributes:
        config: The entry in config.json; empty if it is in a file of its own.
        block: Outputs and inputs that share a scale; None is all of them.
        scale: Name of the scales.
        shape: Shape of the scales; None is [out ÷ block, in ÷ block].
        others: Further tensors of each layer.
        file: Content of ModelOpt's file.
        of_scales: Data type of the scales.
    """

    config: Mapping[str, Any]
    block: tuple[int | None, int | None] = (None, None)
    scale: str = "weight_scale"
    shape: tuple[int, ...] | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    file: Mapping[str, Any] | None = None
    of_scales: torch.dtype = torch.float32


def _compressed(strategy: str, **weights: object) -> dict[str, Any]:
    scheme = {
        "targets": ["Linear"],
        "weights": {"num_bits": 8, "type": "float", "strategy": strategy, **weights},
        "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": scheme},
        "ignore": ["lm_head"],
    }


_BLOCKS = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
}
FLOAT_LAYOUTS: Mapping[str, FloatLayout] = {
    "deepseek": FloatLayout(_BLOCKS, (32, 32), "weight_scale_inv"),
    "deepseek-cut-off": FloatLayout(
        {**_BLOCKS, "weight_block_size": [40, 40]}, (40, 40), "weight_scale_inv"
    ),
    "powers-of-two": FloatLayout(
        {**_BLOCKS, "scale_fmt": "ue8m0"},
        (32, 32),
        "weight_scale_inv",
        of_scales=torch.float8_e8m0fnu,
    ),
    "autofp8": FloatLayout(
        {"quant_method": "fp8", "activation_scheme": "static"},
        shape=(),
        others={"input_scale": 0.5},
    ),
    "fbgemm": FloatLayout(
        {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
        (1, None),
        others={"input_scale_ub": 1200.0},
    ),
    "channel": FloatLayout(_compressed("channel"), (1, None)),
    "tensor": FloatLayout(_compressed("tensor"), shape=(1,)),
    "group": FloatLayout(_compressed("group", group_size=16), (1, 16)),
    "block": FloatLayout(_compressed("block", block_structure=[32, 32]), (32, 32)),
    "modelopt": FloatLayout(
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        shape=(),
        others={"input_scale": 0.5},
    ),
    "modelopt-file": FloatLayout(
        {},
        (1, None),
        shape=(-1,),
        file={"quantization": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}},
    ),
}


def quantize_floats(oracle: Oracle, folder: Path, layout: FloatLayout) -> None:
    """Quantizes the oracle's layers in place, and writes them as the layout has them.

    The output layer stays as it is.
    """
    state = dict(oracle.model.state_dict())
    for name, module in oracle.model.model.layers.named_modules():
        if type(module) is not nn.Linear:
            continue
        prefix = f"model.layers.{name}"
        codes, scales = rounded(module.weight.detach(), layout)
        module.weight.data = plain(codes, scales, layout.block)
        shape = scales.shape if layout.shape is None else layout.shape
        state[f"{prefix}.weight"] = codes
        state[f"{prefix}.{layout.scale}"] = scales.reshape(shape).to(layout.of_scales)
        for other, value in layout.others.items():
            state[f"{prefix}.{other}"] = torch.tensor(value)
    stored = {name: each.clone() for name, each in state.items()}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    if layout.config:
        config["quantization_config"] = dict(layout.config)
    path.write_text(json.dumps(config))
    if layout.file is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps(layout.file))


def rounded(
    weight: torch.Tensor, layout: FloatLayout
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns E4M3 codes [out, in], and scales [blocks of out, blocks of in]."""
    rows, columns = _sizes(weight, layout.block)
    grid = [
        [
            piece.abs().max().clamp(min=1e-12) / MOST
            for piece in band.split(columns, dim=1)
        ]
        for band in weight.split(rows)
    ]
    scales = torch.tensor(grid)
    if layout.of_scales != torch.float32:
        scales = scales.log2().ceil().exp2()
    wide = _wide(scales, weight.shape, (rows, columns))
    return (weight / wide).clamp(-MOST, MOST).to(E4M3), scales


def plain(
    codes: torch.Tensor, scales: torch.Tensor, block: tuple[int | None, int | None]
) -> torch.Tensor:
    """The reference: each number times the scale of its block, in float32."""
    return codes.float() * _wide(scales, codes.shape, _sizes(codes, block))


def _sizes(
    weight: torch.Tensor, block: tuple[int | None, int | None]
) -> tuple[int, int]:
    rows, columns = block
    return rows or weight.shape[0], columns or weight.shape[1]


def _wide(
    scales: torch.Tensor, shape: torch.Size, block: tuple[int, int]
) -> torch.Tensor:
    """Looks up the scale of each number."""
    rows = torch.arange(shape[0]) // block[0]
    columns = torch.arange(shape[1]) // block[1]
    return scales[rows][:, columns]
