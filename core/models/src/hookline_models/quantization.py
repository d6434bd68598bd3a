"""Quantization methods, which read or make quantized weights, and which a model needs.

It is imported without torch, as plugins of methods are.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol, cast

from hookline.config.model import ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import QUANTIZATION_METHOD
from hookline_registry import all_installed

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel

    from hookline_models.checkpoints.cut import Cut

_USUAL = "hookline-quantized"
"""The distribution that has the usual methods."""
_SCALES = "kv-cache-scales"
"""The method of a checkpoint with scales for a KV cache, and plain weights."""
_NO_FORMATS = {
    *(Quantization.W8A16, Quantization.W4A16, Quantization.W8A8, Quantization.W4A8),
    _SCALES,
}
"""Methods that no checkpoint names."""
_SCALE = re.compile(r"\.\d+\..*?\b(?:(?:kv|k|v)_scale|[kv]_proj\.output_scale)$")
_CODES = {"F8_E4M3", "F8_E5M2", "I8", "U8"}
"""Data types of weights that need scales, as safetensors names them."""
_ENTRIES = ("quantization_config", "compression_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationContext:
    """Payload of `create_quantization_method`: the model to load.

    Attributes:
        name: Name of the method: that of the checkpoint, or of `--quantization`.
        config: The model's configuration.
        entries: What config.json says of quantized weights; empty if they are plain.
    """

    name: str
    config: ModelConfig
    entries: Mapping[str, object] = field(default_factory=dict)


class ReadTensor(Protocol):
    """A tensor that is read when it is indexed."""

    def get_dtype(self) -> str:
        """Returns the data type as safetensors names it."""
        ...

    def __getitem__(self, index: EllipsisType) -> "torch.Tensor": ...


class StoredTensor(ReadTensor, Protocol):
    """A tensor in a file, or one rank's part of it."""

    def get_shape(self) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """A checkpoint's tensors, which stay readable until the model is made.

    Attributes:
        own: What the rank reads of each tensor, by name.
        whole: The same tensors undivided.
        cut: Returns the part that the rank holds of a tensor of this name and shape;
            raises `ValueError` if the ranks cannot divide it evenly.
    """

    own: Mapping[str, StoredTensor]
    whole: Mapping[str, StoredTensor]
    cut: Callable[[str, Sequence[int]], "Cut"]


class QuantizationMethod(Protocol):
    """How the weights of one model are quantized; made anew for each load.

    The loader calls `activation_dtype`; then `read`, makes a model of what that
    returns, and calls `fill` and `use_cache_scales`, unless weights are random; then
    `quantize`. Layers whose weights are quantized are `QuantizedLayer`s of
    `hookline_kernels.modules.quantized_layer`.
    """

    def activation_dtype(
        self, dtype: "torch.dtype", device: "torch.device"
    ) -> "torch.dtype":
        """Returns the data type to compute in, instead of the one given.

        Raises:
            ModelLoadError: No kernels support the data type or the device.
        """
        ...

    def read(
        self, weights: StoredWeights, dtype: "torch.dtype"
    ) -> Mapping[str, StoredTensor]:
        """Returns tensors with the names and shapes of a model that is not quantized.

        Args:
            weights: The checkpoint.
            dtype: Data type of what is not quantized.

        Raises:
            ModelLoadError: The checkpoint's tensors contradict its configuration.
        """
        ...

    def fill(
        self, model: "PreTrainedModel", *, may_compile: bool, reads_all: bool
    ) -> None:
        """Replaces layers of a model that was made of what `read` returned.

        Args:
            model: The model.
            may_compile: Layers use kernels.
            reads_all: The model has all layers of the checkpoint.

        Raises:
            ModelLoadError: A layer is damaged or of another kind.
        """
        ...

    def use_cache_scales(
        self,
        model: "PreTrainedModel",
        tensors: Mapping[str, StoredTensor],
        cache_dtype: "torch.dtype | None",
    ) -> None:
        """Uses the checkpoint's scales for a KV cache in 8 bits, if it has any.

        Args:
            model: Loaded, with plain or quantized layers.
            tensors: The checkpoint's, by name.
            cache_dtype: Data type of the KV cache, if it has 8 bits.
        """
        ...

    def quantize(self, model: "PreTrainedModel", *, may_compile: bool) -> None:
        """Quantizes a loaded model in place, if that was asked for.

        Raises:
            ModelLoadError: No layer can be quantized.
        """
        ...


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
    name = method_name(config, described)
    return _make(config, name, _entries(config.model, described)) if name else None


def method_name(config: ModelConfig, described: Mapping[str, object]) -> str:
    """Returns the name of a model's method; empty if its weights are not quantized.

    Args:
        config: The model's, with the option `quantization`.
        described: The contents of config.json.

    Raises:
        ModelLoadError: config.json is damaged.
    """
    entries = _entries(config.model, described)
    return str(entries.get("quant_method")) if entries else config.quantization or ""


def find_scales_method(
    config: ModelConfig, names: Iterable[str], cache_dtype: "torch.dtype | None"
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


def refuse_unnamed(model: str, tensors: Mapping[str, StoredTensor]) -> None:
    """Raises `ModelLoadError` for weights with scales that no configuration mentions.

    Read as they are, they would be wrong by their scales.
    """
    for name, tensor in tensors.items():
        scaled = any(name + end in tensors for end in ("_scale", "_scale_inv"))
        if scaled and (dtype := tensor.get_dtype()) in _CODES:
            raise ModelLoadError(
                model,
                f"{name} is in {dtype} and has scales, but config.json has no "
                "quantization_config that says of what kind",
            )


def forget_quantization(config: "PreTrainedConfig") -> None:
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
