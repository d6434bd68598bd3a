"""What a GGUF file's metadata says of a model, as entries of `config.json`."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

from hookline_gguf.header import GgufError
from hookline_gguf.names import EMBEDDING, OUTPUT
from hookline_gguf.parts import GgufModel

METHOD = "gguf"
"""`quant_method` of these configurations."""

_LARGEST_GEMMA = {"gemma2": 46, "gemma3": 62}
"""Layers of the models whose queries are scaled by the hidden size for each head."""
_LONGROPE = "longrope"


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one architecture.

    Attributes:
        model_type: Their name in `transformers`.
        architecture: Their class.
        permutes: Rows of queries and keys are in llama.cpp's order.
        adds_one: Norms' weights have 1 added.
    """

    model_type: str
    architecture: str
    permutes: bool = False
    adds_one: bool = False


FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", "LlamaForCausalLM", permutes=True),
    "qwen2": Family("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Family("qwen3", "Qwen3ForCausalLM"),
    "gemma": Family("gemma", "GemmaForCausalLM", adds_one=True),
    "gemma2": Family("gemma2", "Gemma2ForCausalLM", adds_one=True),
    "gemma3": Family("gemma3_text", "Gemma3ForCausalLM", adds_one=True),
    "phi3": Family("phi3", "Phi3ForCausalLM"),
}


def family_of(model: GgufModel) -> Family:
    """Returns a model's family.

    Raises:
        GgufError: It is none that is read.
    """
    if (found := FAMILIES.get(model.architecture)) is None:
        raise GgufError(
            f"its architecture is {model.architecture[:80]!r}; GGUF files are read of "
            f"{', '.join(FAMILIES)}"
        )
    if model.own("expert_count", int, 0):
        raise GgufError("it has experts, which are not read from GGUF files")
    return found


def config_of(model: GgufModel) -> dict[str, object]:
    """Returns the contents of `config.json`.

    Raises:
        GgufError: The metadata lacks something, or has what cannot be served.
    """
    family = family_of(model)
    heads = model.own("attention.head_count", int)
    hidden = model.own("embedding_length", int)
    if heads < 1 or hidden < 1:
        raise GgufError("it has no heads, or a hidden size of 0")
    head_dim = model.own("attention.key_length", int, hidden // heads)
    if model.own("attention.value_length", int, head_dim) != head_dim:
        raise GgufError("its values have another length than its keys")
    embedding = model.tensors.get(EMBEDDING)
    if embedding is None:
        raise GgufError(f"it has no tensor {EMBEDDING}")
    config: dict[str, object] = {
        "architectures": [family.architecture],
        "model_type": family.model_type,
        "dtype": _dtype(model),
        "vocab_size": embedding.shape[0],
        "hidden_size": hidden,
        "intermediate_size": model.own("feed_forward_length", int),
        "num_hidden_layers": model.own("block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": model.own("attention.head_count_kv", int, heads),
        "head_dim": head_dim,
        "max_position_embeddings": model.own("context_length", int),
        "rms_norm_eps": model.own("attention.layer_norm_rms_epsilon", float, 1e-6),
        "rope_theta": model.own("rope.freq_base", float, 10000.0),
        "tie_word_embeddings": OUTPUT not in model.tensors,
        "attention_bias": "blk.0.attn_q.bias" in model.tensors,
        "quantization_config": {"quant_method": METHOD},
        **_token_ids(model),
    }
    return {**config, **_rope(model, head_dim), **_special(model, config)}


def _token_ids(model: GgufModel) -> dict[str, object]:
    return {
        f"{name}_token_id": model.find(f"tokenizer.ggml.{key}_token_id", int)
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
    }


def _dtype(model: GgufModel) -> str:
    """Returns the type that most weights have; bfloat16 for quantized ones."""
    matrices = [each for each in model.tensors.values() if len(each.shape) > 1]
    kinds = {each.kind for each in matrices}
    if kinds == {Kind.F32}:
        return "float32"
    return "float16" if kinds <= {Kind.F16, Kind.F32} else "bfloat16"


def _rope(model: GgufModel, head_dim: int) -> dict[str, object]:
    rotated = model.own("rope.dimension_count", int, head_dim)
    partial: dict[str, object] = {}
    if rotated != head_dim:
        if model.architecture != "phi3":
            raise GgufError(f"it rotates {rotated} of {head_dim} numbers of a head")
        partial = {"partial_rotary_factor": rotated / head_dim}
    if (scaling := _scaling(model)) is None:
        return partial
    original = scaling.get("original_max_position_embeddings")
    top = {"original_max_position_embeddings": original} if original else {}
    own = top if model.architecture == "phi3" else {}
    return {**partial, **own, "rope_scaling": scaling}


def _scaling(model: GgufModel) -> dict[str, object] | None:
    """Returns the scaling of the rotary embedding; None without any."""
    context = model.own("context_length", int)
    original = model.own("rope.scaling.original_context_length", int, context)
    long, short = _factors(model, "long"), _factors(model, "short")
    if long is not None and short is not None:
        attention = model.own("rope.scaling.attn_factor", float, 0.0)
        return {
            "rope_type": _LONGROPE,
            "long_factor": long,
            "short_factor": short,
            "original_max_position_embeddings": original,
            **({"attention_factor": attention} if attention else {}),
        }
    if (single := _numbers(model, "rope_freqs.weight")) is not None:
        return {
            "rope_type": _LONGROPE,  # the only kind that takes a factor a frequency
            "long_factor": single,
            "short_factor": single,
            "factor": 1.0,
            "attention_factor": 1.0,
            "original_max_position_embeddings": context,
        }
    kind = model.own("rope.scaling.type", str, "none")
    factor = model.own("rope.scaling.factor", float, 1.0)
    if kind in ("none", "") or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        return {
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
        }
    raise GgufError(f"its rotary embedding has the scaling {kind[:80]!r}")


def _factors(model: GgufModel, name: str) -> list[float] | None:
    return _numbers(model, f"rope_factors_{name}.weight")


def _numbers(model: GgufModel, name: str) -> list[float] | None:
    """Reads a small tensor of float32."""
    if (place := model.tensors.get(name)) is None:
        return None
    if place.kind is not Kind.F32 or len(place.shape) != 1 or place.nbytes > 1 << 16:
        raise GgufError(f"its {name} is no row of float32")
    with place.path.open("rb") as file:
        file.seek(place.start)
        numbers = np.frombuffer(file.read(place.nbytes), np.float32)
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise GgufError(f"its {name} has numbers that are not above 0")
    return [float(each) for each in numbers]


def _special(model: GgufModel, config: Mapping[str, object]) -> dict[str, object]:
    """Returns what only some architectures have."""
    window = model.own("attention.sliding_window", int, 0)
    found: dict[str, object] = {}
    if model.architecture.startswith("gemma"):
        found["hidden_activation"] = "gelu_pytorch_tanh"
    match model.architecture:
        case "llama" if window:
            found["model_type"] = "mistral"
            found["architectures"] = ["MistralForCausalLM"]
            found["sliding_window"] = window
        case "qwen2":
            found["use_sliding_window"] = False
        case "phi3":
            found["sliding_window"] = window or None
        case "gemma2" | "gemma3":
            found["sliding_window"] = window or 4096
            found["query_pre_attn_scalar"] = _query_scalar(model, config)
            for name in ("attn_logit_softcapping", "final_logit_softcapping"):
                found[name] = model.own(name, float, 0.0) or None
        case _:
            pass
    if model.architecture == "gemma3":
        local = model.own("rope.freq_base_swa", float, 10000.0)
        found["rope_local_base_freq"] = local
    return found


def _query_scalar(model: GgufModel, config: Mapping[str, object]) -> object:
    """Returns the number whose root divides queries, as llama.cpp chooses it."""
    if scale := model.own("attention.scale", float, 0.0):
        return round(scale**-2)
    if config["num_hidden_layers"] == _LARGEST_GEMMA[model.architecture]:
        heads = model.own("attention.head_count", int)
        return model.own("embedding_length", int) // heads
    return config["head_dim"]


def generation_of(model: GgufModel) -> dict[str, object]:
    """Returns the contents of `generation_config.json`: ends, and the sampling."""
    ends = [
        found
        for name in ("eos", "eot", "eom")
        if (found := model.find(f"tokenizer.ggml.{name}_token_id", int)) is not None
    ]
    config: dict[str, object] = {"eos_token_id": list(dict.fromkeys(ends))}
    names = {
        "temp": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "min_p": "min_p",
        "penalty_repeat": "repetition_penalty",
    }
    for key, name in names.items():
        value = model.metadata.get(f"general.sampling.{key}")
        if isinstance(value, float):  # float32, as people write it
            config[name] = float(f"{value:.6g}")
        elif isinstance(value, int):
            config[name] = value
    return config if ends else {key: config[key] for key in config if key[:3] != "eos"}
