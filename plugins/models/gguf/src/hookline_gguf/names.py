"""Names of tensors: those of GGUF, and those that `transformers` has for them."""

import re
from collections.abc import Mapping

from hookline_gguf.header import GgufError

EMBEDDING = "token_embd.weight"
OUTPUT = "output.weight"
"""The output layer; files without one have it tied to the embedding."""
ROPE_TENSORS = {"rope_freqs", "rope_factors_long", "rope_factors_short"}
"""Parts of the configuration that are stored as tensors."""

_WHOLE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_FOUR_NORMS = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_SPECIAL: Mapping[str, Mapping[str, str]] = {
    "gemma2": _FOUR_NORMS,
    "gemma3": _FOUR_NORMS,
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
}
_NAME = re.compile(r"blk\.(\d{1,5})\.(\w+)\.(weight|bias)")


def usual_name(architecture: str, name: str) -> str:
    """Returns the name that `transformers` has for a tensor.

    Raises:
        GgufError: Models of this architecture have no such tensor.
    """
    if (match := _NAME.fullmatch(name)) is not None:
        layer, part, kind = match.groups()
        part_names = {**_LAYER, **_SPECIAL.get(architecture, {})}
        if (found := part_names.get(part)) is not None:
            return f"model.layers.{layer}.{found}.{kind}"
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias") or stem not in _WHOLE:
        raise GgufError(f"its tensor {name[:80]!r} is none of a {architecture} model")
    return f"{_WHOLE[stem]}.{kind}"
