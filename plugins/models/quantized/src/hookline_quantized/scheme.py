"""Which quantization a model is loaded with: the option's, or its checkpoint's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hookline.config import Dtype, ModelConfig, Quantization
from hookline.exceptions import ModelLoadError
from hookline_kernels.quantized_weight import BYTE_BITS, FLOAT_BITS
from hookline_quantized.checkpoint_format import (
    Entries,
    FoundFormat,
    checkpoint_format,
)


class Bits(NamedTuple):
    """Bits of numbers of weights, and of activations."""

    weights: int
    activations: int


MADE: Mapping[Quantization, Bits] = {
    Quantization.W8A16: Bits(8, FLOAT_BITS),
    Quantization.W4A16: Bits(4, FLOAT_BITS),
    Quantization.W8A8: Bits(8, BYTE_BITS),
    Quantization.W4A8: Bits(4, BYTE_BITS),
}
"""What is made while a model is loaded."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How weights become quantized.

    Attributes:
        bits: They are quantized while they are loaded, to so many; None if not.
        found: How the checkpoint has them; None if they are plain. Beside `bits` it has
            no integers: what it has is dequantized first.
    """

    bits: Bits | None = None
    found: FoundFormat | None = None

    @property
    def has_kernels(self) -> bool:
        """Whether kernels read quantized weights of the loaded model."""
        return self.bits is not None or bool(self.found and self.found.integers)


def scheme_of(config: ModelConfig, entries: Entries) -> Scheme:
    """Returns the quantization.

    Args:
        config: The option's value.
        entries: What config.json says of quantized weights; empty if they are plain.

    Raises:
        ModelLoadError: The option does not fit the checkpoint, or Hookline does not
            read its format.
    """
    found = checkpoint_format(config.model, entries) if entries else None
    wanted = config.quantization
    if wanted is None:
        return Scheme(found=found)
    if wanted in MADE and (found is None or not found.integers):
        return Scheme(bits=MADE[wanted], found=found)
    if wanted in MADE or found is None or found.name != wanted:
        told = "not quantized" if found is None else f"quantized with {found.name}"
        raise ModelLoadError(
            config.model, f"--quantization is {wanted}, but the checkpoint is {told}"
        )
    return Scheme(found=found)


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
