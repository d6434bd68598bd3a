"""Which quantization a model is loaded with: the option's, or its checkpoint's."""

from dataclasses import dataclass

import torch
from transformers import PreTrainedConfig

from hookline.config import Dtype, ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline.models.quantized.checkpoint_format import Entries, checkpoint_format
from hookline.models.quantized.unpacked import CheckpointFormat

_BITS = {Quantization.W8A16: 8, Quantization.W4A16: 4}
_ENTRIES = ("quantization_config", "compression_config")


@dataclass(frozen=True, slots=True)
class Scheme:
    """How weights become quantized: exactly one of the two.

    Attributes:
        bits: They are quantized while they are loaded.
        layout: The checkpoint has them so.
    """

    bits: int | None
    layout: CheckpointFormat | None


def quantization_of(config: ModelConfig, described: Entries) -> Scheme | None:
    """Returns the quantization; None if there is none.

    Args:
        config: The option's value.
        described: The contents of config.json.

    Raises:
        ModelLoadError: The option does not fit the checkpoint, or Hookline does not
            read its format.
    """
    layout = checkpoint_format(config.model, described)
    wanted, found = config.quantization, "not quantized"
    if layout is not None:
        found = f"quantized with {layout.name}"
    if wanted is None:
        return None if layout is None else Scheme(None, layout)
    if wanted in _BITS and layout is None:
        return Scheme(_BITS[wanted], None)
    if wanted in _BITS or layout is None or layout.name != wanted:
        raise ModelLoadError(
            config.model, f"--quantization is {wanted}, but the checkpoint is {found}"
        )
    return Scheme(None, layout)


def dtype_for(
    config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> torch.dtype:
    """Returns the type of activations; bfloat16 instead of a checkpoint's float16.

    Raises:
        ModelLoadError: There are no kernels for this type or device.
    """
    if device.type != "cpu":
        raise ModelLoadError(
            config.model, "quantized weights have kernels for CPUs only, not for GPUs"
        )
    if dtype == torch.float16 and config.dtype is Dtype.AUTO:
        return torch.bfloat16
    if dtype not in {torch.bfloat16, torch.float32}:
        raise ModelLoadError(
            config.model, f"quantized weights need bfloat16 or float32, not {dtype}"
        )
    return dtype


def forget_quantization(config: PreTrainedConfig) -> None:
    """Removes what would make `transformers` read quantized weights itself."""
    for each in (config, config.get_text_config()):
        for name in _ENTRIES:
            if hasattr(each, name):
                delattr(each, name)
