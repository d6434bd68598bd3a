"""Scales that a checkpoint has for a KV cache in fp8, as calibration found them.

An E4M3 number has few bits for its exponent: keys or values that are all small, or too
large, need a common factor. The nearest power of two that is no smaller than the scale
serves as well as the scale itself, and changes weights without rounding. So keys and
values are divided where they are made, queries and outputs multiplied, and kernels know
nothing of it.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from hookline_models.quantization import StoredTensor
from hookline_quantized.linear import QuantizedLinear

_log = logging.getLogger(__name__)

_NAME = re.compile(
    r"\.(?P<layer>\d+)\..*?\b(?:"
    r"(?P<side>kv|k|v)_scale|(?P<projection>k|v)_proj\.output_scale)$"
)
"""Names of vLLM, compressed-tensors, ModelOpt and AutoFP8."""
_LAYER = re.compile(r"\.(\d+)\.[^.]+$")
_FAMILIES = {
    "gpt_oss",
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
}
"""Models whose keys are a projection, a norm's weight and a rotation, and no more."""

Side = Literal["k", "v"]
Exponents = Mapping[int, Mapping[Side, int]]
"""Powers of two by layer, of keys and of values."""


def use_cache_scales(
    model: PreTrainedModel,
    tensors: Mapping[str, StoredTensor],
    cache_dtype: torch.dtype | None,
) -> None:
    """Makes a model's keys and values fit a cache in E4M3; logs what is done.

    Args:
        model: Loaded, with plain or quantized layers.
        tensors: The checkpoint's, by name.
        cache_dtype: Of the KV cache, if it has 8 bits.
    """
    found = _exponents(tensors)
    if not found:
        return
    if cache_dtype != torch.float8_e4m3fn:
        _log.info(
            "The checkpoint has scales for a KV cache in fp8. They are not used: %s",
            _why_not(cache_dtype),
        )
        return
    family = model.config.get_text_config().model_type
    if family not in _FAMILIES:
        _log.warning(
            "The checkpoint has scales for a KV cache in fp8, which cannot be used "
            "with models of type %s: keys and values beyond 448 are clamped",
            family,
        )
        return
    with torch.no_grad():
        count = _fold(model, found)
    _log.info("Keys and values of %d layers use the checkpoint's scales", count)


def _why_not(cache_dtype: torch.dtype | None) -> str:
    if cache_dtype is None:
        return "--kv-cache-dtype is not fp8"
    if cache_dtype == torch.int8:
        return "int8 has a scale of its own for each token and head"
    return "the range of fp8_e5m2 needs none"


def _exponents(tensors: Mapping[str, StoredTensor]) -> Exponents:
    """Reads the scales; of one per head, the largest serves all heads."""
    found: defaultdict[int, dict[Side, int]] = defaultdict(dict)
    for name, tensor in tensors.items():
        if not (match := _NAME.search(name)):
            continue
        scale = float(tensor[...].float().max())
        # Scales that calibration did not reach are -1 or 0.
        if not (math.isfinite(scale) and scale > 0):
            continue
        named = match["side"] or match["projection"]
        sides: tuple[Side, ...] = ("k", "v")
        for side in sides:
            if side in named:
                found[int(match["layer"])][side] = math.ceil(math.log2(scale))
    return found


def _fold(model: nn.Module, found: Exponents) -> int:
    """Moves the factors into weights; returns the number of layers."""
    count = 0
    for name, module in model.named_modules():
        parts: dict[str, nn.Module] = dict(module.named_children())
        match = _LAYER.search(name)
        if match is None or "k_proj" not in parts or int(match[1]) not in found:
            continue
        own = found[int(match[1])]
        key, value = 2.0 ** own.get("k", 0), 2.0 ** own.get("v", 0)
        _multiply(parts.get("k_norm", parts["k_proj"]), 1 / key)
        _multiply(parts.get("q_norm", parts["q_proj"]), key)
        _multiply(parts["v_proj"], 1 / value)
        _multiply(parts["o_proj"], value, has_bias=False)
        count += 1
    return count


def _multiply(module: nn.Module, factor: float, *, has_bias: bool = True) -> None:
    """Multiplies a module's results, or all but its bias, by a power of two."""
    if isinstance(module, QuantizedLinear):
        assert module.quantized is not None
        parts = [module.quantized.scales, module.quantized.shifts]
    else:
        parts = [module.get_parameter("weight")]
    if has_bias:
        parts.append(dict(module.named_parameters(recurse=False)).get("bias"))
    for part in parts:
        if part is not None:
            part.mul_(factor)
