"""Reads configurations, and refuses those of models that are not supported."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from hookline.config.model import ModelConfig
from hookline.exceptions import ModelLoadError
from hookline_description.end_tokens import without_nulls
from hookline_description.rope import with_usual_names

SERVABLE_LAYERS = {"full_attention", "sliding_attention"}
"""Layer types whose only state of earlier tokens is a KV cache."""


def read_config(
    config: ModelConfig, folder: Path, described: Mapping[str, object]
) -> PreTrainedConfig:
    """Returns a model's configuration as `transformers` has it.

    Args:
        config: The configured model.
        folder: Its folder.
        described: The contents of `config.json`, with the option's values.

    Raises:
        ModelLoadError: Only code of the folder knows the model's type.
    """
    _refuse_own_code(config.model, described)
    cleaned = with_usual_names(without_nulls(described))
    if cleaned == described and not config.hf_overrides:
        return _read(folder)
    with TemporaryDirectory() as copy:
        (Path(copy) / "config.json").write_text(json.dumps(cleaned), "utf-8")
        found = _read(Path(copy))
    found.name_or_path = str(folder)
    return found


def _read(folder: Path) -> PreTrainedConfig:
    found: PreTrainedConfig = AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return found


def _refuse_own_code(name: str, described: Mapping[str, object]) -> None:
    """Raises `ModelLoadError` for a model type that only the folder's code knows.

    `auto_map` names such code. It is never run: where `transformers` has the model
    type itself, its own implementation is used.
    """
    model_type = described.get("model_type")
    if "auto_map" in described and model_type not in CONFIG_MAPPING:
        raise ModelLoadError(
            name,
            f"its model type {model_type!r} is only known to code in the model folder "
            "(auto_map), which Hookline never runs",
        )


def refuse_unsupported(name: str, config: PreTrainedConfig) -> None:
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
