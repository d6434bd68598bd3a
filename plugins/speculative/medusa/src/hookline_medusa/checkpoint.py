"""Reads and writes heads in the format of the Medusa project.

A folder with `config.json` (`medusa_num_heads`, `medusa_num_layers`) and the weights,
`medusa_lm_head.safetensors` or `medusa_lm_head.pt`, under these names for head i:
`{i}.{l}.linear.weight` and `.bias` of residual block l, `{i}.{blocks}.weight` of the
output layer. Older heads have no output layer and use the target's.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from hookline.exceptions import ConfigError
from hookline_drafting.weights import find_weights, read_config, read_weights
from hookline_medusa.heads import Block, Head
from hookline_medusa.options import OPTION

WEIGHTS = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
_NAME = re.compile(
    r"(?:medusa_heads\.)?(?P<head>\d+)\.(?P<place>\d+)\.(?P<part>linear\.weight|"
    r"linear\.bias|weight)"
)
Tensors = Mapping[tuple[int, int, str], torch.Tensor]
"""By head, place in the head, and part."""


def load_heads(folder: Path) -> tuple[Head, ...]:
    """Loads the heads of a folder, in order, on the CPU.

    Raises:
        ConfigError: A file is missing, damaged or without Medusa heads.
    """
    config = read_config(folder)
    path = find_weights(folder, WEIGHTS)
    tensors = _named(path, read_weights(path))
    count = 1 + max(head for head, _, _ in tensors)
    heads = tuple(_head(path, tensors, index) for index in range(count))
    # The config.json of published heads often has a smaller number than the weights.
    for name, found in (
        ("medusa_num_heads", count),
        ("medusa_num_layers", len(heads[0].blocks)),
    ):
        value = config.get(name, found)
        if not isinstance(value, int) or value > found:
            raise ConfigError(
                OPTION,
                f"{folder}: {name} is {value} in config.json, but {found} in "
                f"{path.name}",
            )
    return heads


def save_heads(folder: Path, heads: Sequence[Head], target: str) -> None:
    """Writes heads of equal structure in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, torch.Tensor] = {}
    for index, head in enumerate(heads):
        for place, (weight, bias) in enumerate(head.blocks):
            tensors[f"{index}.{place}.linear.weight"] = weight
            if bias is not None:
                tensors[f"{index}.{place}.linear.bias"] = bias
        if head.output is not None:
            tensors[f"{index}.{len(head.blocks)}.weight"] = head.output
    save_file(
        {
            name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
            for name, tensor in tensors.items()
        },
        folder / WEIGHTS[0],
        metadata={"format": "pt"},
    )
    config = {
        "medusa_num_heads": len(heads),
        "medusa_num_layers": len(heads[0].blocks),
        "base_model_name_or_path": target,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def _named(path: Path, found: Mapping[str, object]) -> Tensors:
    tensors: dict[tuple[int, int, str], torch.Tensor] = {}
    for name, tensor in found.items():
        match = _NAME.fullmatch(str(name))
        if match is None or not isinstance(tensor, torch.Tensor):
            raise ConfigError(
                OPTION, f"{path}: {name} does not belong to a Medusa head"
            )
        tensors[int(match["head"]), int(match["place"]), match["part"]] = tensor
    if not tensors:
        raise ConfigError(OPTION, f"{path} is empty")
    return tensors


def _head(path: Path, tensors: Tensors, index: int) -> Head:
    blocks: list[Block] = []
    while (weight := tensors.get((index, len(blocks), "linear.weight"))) is not None:
        blocks.append((weight, tensors.get((index, len(blocks), "linear.bias"))))
    output = tensors.get((index, len(blocks), "weight"))
    known = sum(bias is not None for _, bias in blocks) + len(blocks)
    known += output is not None
    if not blocks or known != sum(head == index for head, _, _ in tensors):
        raise ConfigError(
            OPTION,
            f"{path}: head {index} is not residual blocks and at most one output layer",
        )
    return Head(tuple(blocks), output)
