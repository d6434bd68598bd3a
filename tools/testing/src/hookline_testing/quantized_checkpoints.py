"""Writes small checkpoints in the formats of GPTQ, AWQ and compressed-tensors."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from hookline_testing.oracle import Oracle

GROUP = 32
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Numbers:
    """A weight (code - zero) · scale: codes [out, in], the others [out, groups]."""

    codes: torch.Tensor
    zeros: torch.Tensor
    scales: torch.Tensor
    group_of: torch.Tensor

    @property
    def values(self) -> torch.Tensor:
        zeros, scales = self.zeros[:, self.group_of], self.scales[:, self.group_of]
        return (self.codes - zeros) * scales


Parts = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Layout:
    """One variant of a format: its entry in config.json, and how it stores a layer."""

    config: Mapping[str, Any]
    write: Callable[[Numbers], Parts]
    bits: int = 4
    is_symmetric: bool = False
    is_reordered: bool = False
    group: int | None = GROUP


def words(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Packs [a, b] to int32 [a, b · bits ÷ 32], the first code into the lowest bits."""
    fields = codes.long().unflatten(1, (-1, 32 // bits))
    packed = (fields << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).int()


def gptq(bits: int, offset: int) -> Callable[[Numbers], Parts]:
    def write(numbers: Numbers) -> Parts:
        return {
            "qweight": words(numbers.codes, bits).t().contiguous(),
            "qzeros": words(numbers.zeros.t() - offset, bits),
            "scales": numbers.scales.t().contiguous(),
            "g_idx": numbers.group_of.int(),
        }

    return write


def awq(numbers: Numbers) -> Parts:
    def interleaved(codes: torch.Tensor) -> torch.Tensor:
        return words(codes.unflatten(1, (-1, 8))[..., _AWQ_ORDER].flatten(1), 4)

    return {
        "qweight": interleaved(numbers.codes.t()),
        "qzeros": interleaved(numbers.zeros.t()),
        "scales": numbers.scales.t().contiguous(),
    }


def pack_quantized(bits: int) -> Callable[[Numbers], Parts]:
    def write(numbers: Numbers) -> Parts:
        zeros = words(numbers.zeros.t(), bits).t().contiguous()
        return {
            "weight_packed": words(numbers.codes, bits),
            "weight_scale": numbers.scales,
            "weight_shape": torch.tensor(numbers.codes.shape),
            "weight_zero_point": zeros,
            "weight_g_idx": numbers.group_of.int(),
        }

    return write


def int_quantized(numbers: Numbers) -> Parts:
    return {
        "weight": (numbers.codes - 128).to(torch.int8),
        "weight_scale": numbers.scales,
    }


def compressed(
    layout: str, activations: object = None, **weights: object
) -> dict[str, object]:
    scheme = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": activations,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "config_groups": {"group_0": scheme},
        "ignore": ["lm_head"],
    }


LAYOUTS = {
    "gptq": Layout(
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False},
        gptq(4, 1),
        is_symmetric=True,
    ),
    "gptq-act-order": Layout(
        {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True},
        gptq(4, 1),
        is_reordered=True,
    ),
    "gptq-v2-8-bits": Layout(
        {"quant_method": "gptq", "bits": 8, "checkpoint_format": "gptq_v2"},
        gptq(8, 0),
        bits=8,
    ),
    "awq": Layout(
        {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}, awq
    ),
    "pack-quantized": Layout(
        compressed("pack-quantized", num_bits=4, type="int", group_size=GROUP),
        pack_quantized(4),
    ),
    "pack-quantized-act-order": Layout(
        compressed("pack-quantized", num_bits=4, type="int", actorder="group"),
        pack_quantized(4),
        is_reordered=True,
    ),
    "int-quantized": Layout(
        compressed("int-quantized", num_bits=8, type="int", strategy="channel"),
        int_quantized,
        bits=8,
        is_symmetric=True,
        group=None,
    ),
    "w8a8": Layout(
        compressed(
            "int-quantized",
            {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True},
            num_bits=8,
            type="int",
            strategy="channel",
        ),
        int_quantized,
        bits=8,
        is_symmetric=True,
        group=None,
    ),
    "w8a8-static": Layout(
        compressed(
            "int-quantized",
            {"num_bits": 8, "type": "int", "strategy": "tensor", "dynamic": False},
            num_bits=8,
            type="int",
            strategy="channel",
        ),
        lambda numbers: {
            **int_quantized(numbers),
            "input_scale": torch.tensor([0.5]),
            "input_zero_point": torch.tensor([3], dtype=torch.int8),
        },
        bits=8,
        is_symmetric=True,
        group=None,
    ),
    "pack-quantized-8-bits": Layout(
        compressed("pack-quantized", num_bits=8, type="int", group_size=GROUP),
        pack_quantized(8),
        bits=8,
    ),
}


def quantize(oracle: Oracle, folder: Path, layout: Layout) -> None:
    """Quantizes the oracle's layers in place, and writes them as the layout has them.

    Scales are in float16, as such checkpoints have them.
    """
    model = oracle.model
    state = {
        name: weight
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight" or not model.config.tie_word_embeddings
    }
    for name, module in model.model.layers.named_modules():
        if type(module) is not nn.Linear:
            continue
        parts, values = stored(module.weight.detach(), layout)
        module.weight.data = values
        del state[f"model.layers.{name}.weight"]
        for part, tensor in parts.items():
            state[f"model.layers.{name}.{part}"] = tensor
    (folder / "model.safetensors").unlink(missing_ok=True)
    save_file(state, folder / "model.safetensors")
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["quantization_config"] = dict(layout.config)
    path.write_text(json.dumps(config))


def stored(weight: torch.Tensor, layout: Layout) -> tuple[Parts, torch.Tensor]:
    """Returns the parts of a quantized layer, and the numbers that they stand for."""
    numbers = _rounded(weight, layout)
    parts = {name: each.clone() for name, each in layout.write(numbers).items()}
    return parts, numbers.values.float()


def _rounded(weight: torch.Tensor, layout: Layout) -> Numbers:
    outputs, inputs = weight.shape
    source = torch.Generator().manual_seed(inputs)  # alike for layers of one input
    group = layout.group or inputs
    group_of = torch.arange(inputs) // group
    if layout.is_reordered:
        group_of = group_of[torch.randperm(inputs, generator=source)]
    groups, top = inputs // group, (1 << layout.bits) - 1
    peak = torch.stack(
        [weight[:, group_of == each].abs().amax(1) for each in range(groups)], 1
    )
    scales = (peak * 2 / top).half().float()
    middle = (top + 1) // 2
    zeros = torch.full((outputs, groups), middle)
    if not layout.is_symmetric:
        change = torch.randint(-1, 2, zeros.shape, generator=source)
        zeros = zeros + change
    codes = (weight / scales[:, group_of]).round() + zeros[:, group_of]
    return Numbers(codes.clamp(0, top).long(), zeros, scales.half().float(), group_of)
