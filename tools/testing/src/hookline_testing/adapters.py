"""Writes small random LoRA adapters as PEFT has them, with `peft` as the oracle."""

import copy
import json
import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel

Shapes = dict[str, tuple[int, int]]
"""(in, out) features by module; an embedding's are (vocabulary, width)."""

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Names of the usual targets."""
_PREFIX = "base_model.model."


def shapes_of(model: nn.Module) -> Shapes:
    """Returns the shapes of a model's linear layers and embeddings, by full name."""
    found: Shapes = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            found[name] = (module.in_features, module.out_features)
        elif isinstance(module, nn.Embedding):
            found[name] = (module.num_embeddings, module.embedding_dim)
    return found


def decoder_shapes(
    *,
    layers: int = 2,
    hidden: int = 64,
    inner: int = 96,
    heads: int = 4,
    kv_heads: int = 2,
    vocab: int = 320,
) -> Shapes:
    """Returns the shapes of a decoder like Llama, without a model."""
    head = hidden // heads
    inside = {
        "self_attn.q_proj": (hidden, heads * head),
        "self_attn.k_proj": (hidden, kv_heads * head),
        "self_attn.v_proj": (hidden, kv_heads * head),
        "self_attn.o_proj": (heads * head, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    found: Shapes = {"model.embed_tokens": (vocab, hidden)}
    for layer in range(layers):
        found |= {f"model.layers.{layer}.{name}": inside[name] for name in inside}
    return {**found, "lm_head": (hidden, vocab)}


def make_adapter(
    folder: Path,
    shapes: Mapping[str, tuple[int, int]],
    *,
    targets: Collection[str] = LINEAR,
    rank: int = 4,
    alpha: float = 8.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    strength: float = 1.0,
    modules_to_save: Collection[str] = (),
    **config: Any,
) -> Path:
    """Writes an adapter's folder, and returns it.

    Args:
        folder: Is made; files in it are replaced.
        shapes: Those of the base model.
        targets: Last parts of the names of modules that it changes; those that the base
            has none of are listed without tensors.
        rank: `r`; `rank_pattern` in `config` is heeded.
        alpha: `lora_alpha`.
        seed: Of the weights.
        dtype: Of the weights in the file.
        strength: Size of the changes; 1 changes outputs about as much as they are.
        modules_to_save: Last parts of the names of modules with whole weights.
        config: More of `adapter_config.json`, such as `use_rslora`, `rank_pattern`,
            `alpha_pattern`, `layers_to_transform`.
    """
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": None,
        "bias": "none",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted(targets),
        "modules_to_save": sorted(modules_to_save) or None,
        "inference_mode": True,
        **config,
    }
    tensors = _drawn(shapes, described, seed, strength)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: each.to(dtype).contiguous() for name, each in tensors.items()}
    save_file(stored, folder / "adapter_model.safetensors", {"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(described))
    return folder


def _drawn(
    shapes: Mapping[str, tuple[int, int]],
    config: Mapping[str, Any],
    seed: int,
    strength: float,
) -> dict[str, torch.Tensor]:
    """Returns the tensors that a configuration asks for, by their names in a file."""
    drawn = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for name, (inputs, outputs) in shapes.items():
        last = name.rpartition(".")[2]
        if last in (config["modules_to_save"] or ()):
            weight = torch.randn(outputs, inputs, generator=drawn) / inputs**0.5
            tensors[f"{_PREFIX}{name}.weight"] = strength * weight
        elif last in config["target_modules"] and _is_in_layers(name, config):
            rank = _rank_of(name, config)
            down = torch.randn(rank, inputs, generator=drawn) / inputs**0.5
            up = torch.randn(outputs, rank, generator=drawn) / rank**0.5
            is_embedding = last.startswith("embed")
            kind = "lora_embedding_%s" if is_embedding else "lora_%s.weight"
            key = f"{_PREFIX}{name}.{kind}"
            tensors[key % "A"], tensors[key % "B"] = down, strength * up
    return tensors


def with_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Returns a copy of a model with an adapter, as `peft` computes it, not merged."""
    with warnings.catch_warnings(action="ignore"):  # peft calls what is deprecated
        from peft import PeftModel  # noqa: PLC0415 - takes seconds

        adapted = PeftModel.from_pretrained(copy.deepcopy(model), folder).eval()
    whole: PreTrainedModel = adapted.get_base_model()
    return whole


def save_adapter(
    model: PreTrainedModel, folder: Path, **config: Any
) -> PreTrainedModel:
    """Lets `peft` make and save a random adapter; returns a copy of the model with it.

    Args:
        model: The base model.
        folder: Is made.
        config: Arguments of `peft.LoraConfig`.
    """
    with warnings.catch_warnings(action="ignore"):
        from peft import LoraConfig, get_peft_model  # noqa: PLC0415 - takes seconds

        described = LoraConfig(**{"task_type": "CAUSAL_LM", **config})
        adapted = get_peft_model(copy.deepcopy(model), described).eval()
        for name, weight in adapted.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
        adapted.save_pretrained(folder)
    whole: PreTrainedModel = adapted.get_base_model()
    return whole


def _is_in_layers(name: str, config: Mapping[str, Any]) -> bool:
    """Whether `layers_to_transform` has a module's layer; without it, all have."""
    layers = config.get("layers_to_transform")
    if layers is None:
        return True
    found = re.search(r"\.(\d+)\.", name)
    return found is not None and int(found[1]) in (
        [layers] if isinstance(layers, int) else layers
    )


def _rank_of(name: str, config: Mapping[str, Any]) -> int:
    for pattern, rank in (config.get("rank_pattern") or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            return int(rank)
    return int(config["r"])
