"""Which quantization a model is loaded with: the option's, or its checkpoint's."""

from dataclasses import dataclass

import torch

from hookline.config import Dtype, ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline_quantized import mxfp4
from hookline_quantized.checkpoint_format import Entries, checkpoint_format
from hookline_quantized.unpacked import CheckpointFormat

_BITS = {Quantization.W8A16: 8, Quantization.W4A16: 4}


@dataclass(frozen=True, slots=True)
class Scheme:
    """How weights become quantized.

    Attributes:
        bits: They are quantized while they are loaded, to so many.
        layout: The checkpoint has them so; never beside `bits`.
        is_mxfp4: The checkpoint has experts in MXFP4, which are dequantized first.
    """

    bits: int | None = None
    layout: CheckpointFormat | None = None
    is_mxfp4: bool = False


def scheme_of(config: ModelConfig, entries: Entries) -> Scheme:
    """Returns the quantization.

    Args:
        config: The option's value.
        entries: What config.json says of quantized weights; empty if they are plain.

    Raises:
        ModelLoadError: The option does not fit the checkpoint, or Hookline does not
            read its format.
    """
    is_mxfp4 = entries.get("quant_method") == mxfp4.METHOD
    layout = None
    if entries and not is_mxfp4:
        layout = checkpoint_format(config.model, entries)
    wanted, found = config.quantization, "not quantized"
    if layout is not None:
        found = f"quantized with {layout.name}"
    if wanted is None:
        return Scheme(layout=layout, is_mxfp4=is_mxfp4)
    if wanted in _BITS and layout is None:
        return Scheme(bits=_BITS[wanted], is_mxfp4=is_mxfp4)
    if wanted in _BITS or layout is None or layout.name != wanted:
        raise ModelLoadError(
            config.model, f"--quantization is {wanted}, but the checkpoint is {found}"
        )
    return Scheme(layout=layout)


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
