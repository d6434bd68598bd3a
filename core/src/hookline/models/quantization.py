"""Finds the quantization method that a checkpoint or an option names."""

import re
from collections.abc import Iterable, Mapping
from typing import cast

import torch
from transformers import PreTrainedConfig

from hookline.config.model import ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import QUANTIZATION_METHOD
from hookline.quantization import QuantizationContext, QuantizationMethod
from hookline_registry import all_installed

_USUAL = "hookline-quantized"
"""The distribution that has the usual methods."""
_SCALES = "kv-cache-scales"
"""The method of a checkpoint with scales for a KV cache, and plain weights."""
_NO_FORMATS = {Quantization.W8A16, Quantization.W4A16, _SCALES}
"""Methods that no checkpoint names."""
_SCALE = re.compile(r"\.\d+\..*?\b(?:(?:kv|k|v)_scale|[kv]_proj\.output_scale)$")
_ENTRIES = ("quantization_config", "compression_config")


def find_method(
    config: ModelConfig, described: Mapping[str, object]
) -> QuantizationMethod | None:
    """Returns the method of a model; None if its weights are not quantized.

    Args:
        config: The model's, with the option `quantization`.
        described: The contents of config.json.

    Raises:
        ModelLoadError: The method is not installed, or refuses the checkpoint.
        ConfigError: Its plugin is denied or broken.
    """
    entries = _entries(config.model, described)
    if entries:
        return _make(config, str(entries.get("quant_method")), entries)
    if config.quantization is not None:
        return _make(config, config.quantization, entries)
    return None


def find_scales_method(
    config: ModelConfig, names: Iterable[str], cache_dtype: torch.dtype | None
) -> QuantizationMethod | None:
    """Returns the method that knows scales for a KV cache, if tensors' names show any.

    Args:
        config: The model's, whose weights are not quantized.
        names: Names of the checkpoint's tensors.
        cache_dtype: Data type of the KV cache, if it has 8 bits.

    Raises:
        ModelLoadError: The KV cache has 8 bits, but the method is not installed.
    """
    if not any(map(_SCALE.search, names)):
        return None
    if cache_dtype is None and not _is_installed(_SCALES):
        return None  # the scales would not be used
    return _make(config, _SCALES, {})


def forget_quantization(config: PreTrainedConfig) -> None:
    """Removes what would make `transformers` read quantized weights itself."""
    for each in (config, config.get_text_config()):
        for name in _ENTRIES:
            if hasattr(each, name):
                delattr(each, name)


def _entries(model: str, described: Mapping[str, object]) -> Mapping[str, object]:
    """Returns what config.json says of quantized weights; nothing if they are plain."""
    text = described.get("text_config")
    inner = text if isinstance(text, dict) else {}
    found = described.get("quantization_config", inner.get("quantization_config"))
    found = found or described.get("compression_config")
    if not found:
        return {}
    if not isinstance(found, dict):
        raise ModelLoadError(model, "config.json: quantization_config is no object")
    if not found.get("config_groups") and found.get("kv_cache_scheme"):
        return {}  # only the KV cache is to be quantized
    return found


def _make(
    config: ModelConfig, name: str, entries: Mapping[str, object]
) -> QuantizationMethod:
    if not _is_installed(name):
        raise ModelLoadError(config.model, _missing(name, is_format=bool(entries)))
    context = QuantizationContext(name=name, config=config, entries=entries)
    made = call_plugin(QUANTIZATION_METHOD, name, context, option="quantization")
    if made is None:
        raise ModelLoadError(
            config.model, f"the plugin {name!r} makes no quantization method"
        )
    return cast("QuantizationMethod", made)


def _is_installed(name: str) -> bool:
    """Whether it is installed, if perhaps denied."""
    found = all_installed(QUANTIZATION_METHOD.group)
    return any(plugin.name == name for plugin in found)


def _missing(name: str, *, is_format: bool) -> str:
    """Says why a method is not installed: unknown, or of a distribution left out."""
    absent = f"{_USUAL}, which is not installed (pip install {_USUAL})"
    if name == _SCALES:
        return f"its scales for a KV cache in 8 bits need {absent}"
    if not is_format:
        return f"--quantization {name} needs {absent}"
    found = all_installed(QUANTIZATION_METHOD.group)
    if all(plugin.distribution != _USUAL for plugin in found):
        return f"its weights are quantized by {name!r}; to read them, it needs {absent}"
    formats = sorted({plugin.name for plugin in found} - _NO_FORMATS)
    return f"its weights are quantized by {name!r}; Hookline reads {', '.join(formats)}"
