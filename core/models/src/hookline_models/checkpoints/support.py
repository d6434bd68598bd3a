"""Refuses models that their configuration shows to be unsupported."""

from pathlib import Path

from transformers import CONFIG_MAPPING, PreTrainedConfig

from hookline.exceptions import ModelLoadError
from hookline.model_description import read_object

SERVABLE_LAYERS = {"full_attention", "sliding_attention"}
"""Layer types whose only state of earlier tokens is a KV cache."""


def refuse_own_code(name: str, folder: Path) -> None:
    """Raises `ModelLoadError` for a model type that only the folder's code knows.

    `auto_map` names such code. It is never run: where `transformers` has the model
    type itself, its own implementation is used.
    """
    described = read_object(name, folder / "config.json")
    model_type = described.get("model_type")
    if "auto_map" in described and model_type not in CONFIG_MAPPING:
        raise ModelLoadError(
            name,
            f"its model type {model_type!r} is only known to code in the model folder "
            "(auto_map), which Hookline never runs",
        )


def refuse_unsupported(name: str, config: PreTrainedConfig, max_model_len: int) -> None:
    """Raises `ModelLoadError` for a model whose output would be wrong."""
    if getattr(config, "is_encoder_decoder", False):
        raise ModelLoadError(
            name, "it is an encoder-decoder; only decoders are supported"
        )
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - SERVABLE_LAYERS
    if kinds:
        raise ModelLoadError(
            name,
            f"it has layers other than plain attention: {', '.join(sorted(kinds))}",
        )
    _refuse_rope_by_length(name, text, max_model_len)


def _refuse_rope_by_length(
    name: str, config: PreTrainedConfig, max_model_len: int
) -> None:
    """Raises if the rotary embedding depends on the longest sequence of the batch."""
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in rope.values() if isinstance(value, dict)]
    for parameters in nested or [rope]:
        kind = parameters.get("rope_type")
        if kind not in {"dynamic", "longrope"}:
            continue
        original = parameters.get("original_max_position_embeddings") or getattr(
            config, "original_max_position_embeddings", config.max_position_embeddings
        )
        if max_model_len > original:
            raise ModelLoadError(
                name,
                f"its rotary embedding ({kind}) changes with the length of the batch "
                f"beyond {original} tokens: serve it with max-model-len {original}",
            )
