"""Reads and writes heads in the formats of EAGLE and EAGLE-3.

A checkpoint is a folder with a `config.json` of Llama's keys and one file of weights.
EAGLE has `fc.weight` (and `.bias`), and a Llama layer without its first norm under
`layers.0.`. EAGLE-3 has `fc.weight`, a layer with two input norms under `midlayer.`,
`norm.weight`, `lm_head.weight` over the draft vocabulary, `d2t` (offset from a draft id
to the target's) and `t2d` (whether a target id has a draft id). Both may have
`embed_tokens.weight`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from hookline.exceptions import ConfigError
from hookline_drafting.weights import find_weights, read_config, read_weights
from hookline_eagle.head import NUM_FEATURES, Head, HeadShape
from hookline_eagle.options import OPTION

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_REFUSED = ("norm_before_fc", "fc_norm", "add_para_norm", "norm_output")
"""Options of network variants that are not supported."""

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A head and its configuration.

    Attributes:
        head: The head on the CPU, in float32 or the saved dtype.
        config: Content of `config.json`.
        layers: Target layers whose inputs an EAGLE-3 head reads; None derives them from
            the target's depth.
    """

    head: Head
    config: Mapping[str, object]
    layers: tuple[int, ...] | None


def load_head(folder: Path) -> Checkpoint:
    """Loads the head of a folder.

    Raises:
        ConfigError: A file is missing, damaged or not a supported head.
    """
    config = read_config(folder)
    path = find_weights(folder, WEIGHTS)
    tensors = _named(path, read_weights(path))
    head = Head(_shape(path, config, tensors))
    expected = head.state_dict()
    if "t2d" in expected and "t2d" not in tensors:
        tensors["t2d"] = _known(tensors["d2t"], head.shape.vocab_size)
    missing, others = expected.keys() - tensors.keys(), tensors.keys() - expected.keys()
    if missing or others:
        problems = [f"missing {name}" for name in sorted(missing)]
        problems += [f"unknown {name}" for name in sorted(others)]
        raise ConfigError(
            OPTION, f"{path}: not a supported head: {', '.join(problems)}"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise ConfigError(
                OPTION,
                f"{path}: {name} has the shape {tuple(tensor.shape)}, but by "
                f"config.json it is {tuple(expected[name].shape)}",
            )
    head.load_state_dict(tensors)
    head.requires_grad_(requires_grad=False)
    _check_vocabulary(path, head)
    return Checkpoint(head, config, _layers(config))


def save_head(
    folder: Path, head: Head, config: Mapping[str, object], target: str
) -> None:
    """Writes a head in bfloat16, and `config` into its `config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = head.shape
    save_file(
        {
            name: (
                tensor.to("cpu", torch.bfloat16)
                if tensor.is_floating_point()
                else tensor.to("cpu")
            ).contiguous()
            for name, tensor in head.state_dict().items()
        },
        folder / WEIGHTS[0],
        metadata={"format": "pt"},
    )
    third = {"draft_vocab_size": shape.draft_vocab_size} if shape.is_third else {}
    if shape.is_third and shape.target_size != shape.hidden_size:
        third["target_hidden_size"] = shape.target_size
    written = {
        "architectures": ["LlamaForCausalLM" + ("Eagle3" if shape.is_third else "")],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.epsilon,
        "vocab_size": shape.vocab_size,
        "bias": shape.fusing_bias,
        **third,
        **config,
        "base_model_name_or_path": target,
    }
    (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n", "utf-8")


def _named(path: Path, found: Mapping[str, object]) -> Tensors:
    tensors: Tensors = {}
    for name, tensor in found.items():
        if not isinstance(tensor, torch.Tensor):
            raise ConfigError(OPTION, f"{path}: {name} is not a tensor")
        tensors[str(name).removeprefix("model.")] = tensor
    if "fc.weight" not in tensors:
        raise ConfigError(OPTION, f"{path} has no fc.weight; it is not an EAGLE head")
    if "layers.0.hidden_norm.weight" in tensors:  # as some trainers name the one layer
        tensors = {
            re.sub(r"^layers\.0\.", "midlayer.", name): tensor
            for name, tensor in tensors.items()
        }
    if "midlayer.hidden_norm.weight" in tensors:
        if "lm_head.weight" in tensors and "d2t" not in tensors:
            # Without a map the draft vocabulary is the target's.
            count = len(tensors["lm_head.weight"])
            tensors["d2t"] = torch.zeros(count, dtype=torch.int64)
        return tensors
    # An EAGLE head shares these weights with the target.
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in {"embed_tokens.weight", "lm_head.weight"}
    }


def _check_supported(folder: Path, config: Mapping[str, object]) -> None:
    for name, supported in (("hidden_act", "silu"), ("num_hidden_layers", 1)):
        if config.get(name, supported) != supported:
            raise ConfigError(
                OPTION,
                f"{folder}: {name} is {config[name]!r}, and only {supported!r} is "
                "supported",
            )
    if config.get("model_type", "llama") not in {"llama", "qwen2", "qwen3"}:
        raise ConfigError(
            OPTION,
            f"{folder}: heads of the kind {config['model_type']!r} are not supported",
        )
    for name in _REFUSED:
        if config.get(name):
            raise ConfigError(OPTION, f"{folder}: {name} is not supported")


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers of a folder's `config.json`, checked."""

    folder: Path
    config: Mapping[str, object]

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.config.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._unusable(name)
        return value

    def real(self, name: str, default: float) -> float:
        value = self.config.get(name, default)
        if not isinstance(value, float):
            raise self._unusable(name)
        return value

    def _unusable(self, name: str) -> ConfigError:
        return ConfigError(OPTION, f"{self.folder}: config.json has no usable {name}")


def _shape(path: Path, config: Mapping[str, object], tensors: Tensors) -> HeadShape:
    _check_supported(path.parent, config)
    numbers = _Numbers(path.parent, config)
    number = numbers.whole
    is_third = "midlayer.hidden_norm.weight" in tensors
    width, heads = number("hidden_size"), number("num_attention_heads")
    vocabulary = number("vocab_size")
    layer = "midlayer" if is_third else "layers.0"
    return HeadShape(
        is_third=is_third,
        hidden_size=width,
        target_size=number("target_hidden_size", width),
        num_heads=heads,
        num_kv_heads=number("num_key_value_heads", heads),
        head_dim=number("head_dim", width // heads),
        intermediate_size=number("intermediate_size"),
        vocab_size=vocabulary,
        draft_vocab_size=(
            number("draft_vocab_size", vocabulary) if is_third else vocabulary
        ),
        epsilon=numbers.real("rms_norm_eps", 1e-6),
        fusing_bias="fc.bias" in tensors,
        attention_bias=f"{layer}.self_attn.q_proj.bias" in tensors,
        output_bias=f"{layer}.self_attn.o_proj.bias" in tensors,
        norms_residual=is_third and bool(config.get("norm_before_residual")),
        own_embedding=is_third and "embed_tokens.weight" in tensors,
    )


def _known(offsets: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Computes `t2d` from `d2t`."""
    ids = torch.arange(len(offsets)) + offsets
    known = torch.zeros(vocabulary, dtype=torch.bool)
    known[ids.clamp(0, vocabulary - 1)] = True
    return known


def _check_vocabulary(path: Path, head: Head) -> None:
    if not head.shape.is_third:
        return
    ids = head.tokens(torch.arange(head.shape.draft_vocab_size))
    if int(ids.min()) < 0 or int(ids.max()) >= head.shape.vocab_size:
        raise ConfigError(
            OPTION, f"{path}: d2t maps beyond the {head.shape.vocab_size} token ids"
        )
    if len(ids.unique()) != len(ids):
        raise ConfigError(
            OPTION, f"{path}: d2t maps two draft ids to the same token id"
        )


def _layers(config: Mapping[str, object]) -> tuple[int, ...] | None:
    """Returns the layers whose inputs are read.

    vLLM's key counts layers by their inputs, SGLang's by their outputs.
    """
    given, behind = config.get("eagle_aux_hidden_state_layer_ids"), 0
    inner = config.get("eagle_config")
    if given is None and isinstance(inner, dict):
        given, behind = inner.get("eagle_aux_hidden_state_layer_ids"), 1
        if inner.get("use_aux_hidden_state") is False:
            raise ConfigError(
                OPTION,
                "heads of EAGLE-3 without the layers' features are not supported",
            )
    if given is None:
        return None
    if (
        not isinstance(given, list)
        or len(given) != NUM_FEATURES
        or not all(isinstance(each, int) and each >= 0 for each in given)
    ):
        raise ConfigError(
            OPTION, "eagle_aux_hidden_state_layer_ids must be three layers"
        )
    return tuple(each + behind for each in given)
