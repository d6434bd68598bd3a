"""Expert weights in MXFP4, dequantized as they are read.

Of the OCP Microscaling Formats specification 1.0: 32 numbers of 4 bits (a sign, two
bits of exponent, one of mantissa) share a scale, which is a power of two in 8 bits.
gpt-oss stores each weight W of its experts as `W_blocks` and `W_scales`.
"""

from collections.abc import Mapping
from types import EllipsisType

import torch

from hookline_models.quantization import StoredTensor

_BLOCKS, _SCALES = "_blocks", "_scales"
_BIAS = 127
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class Mxfp4Tensor:
    """Two tensors of a file as the bfloat16 weight that they stand for."""

    def __init__(self, blocks: StoredTensor, scales: StoredTensor) -> None:
        """Reads nothing yet."""
        self._blocks, self._scales = blocks, scales

    def get_shape(self) -> list[int]:
        experts, outputs, blocks, size = self._blocks.get_shape()
        return [experts, 2 * blocks * size, outputs]

    def get_dtype(self) -> str:
        """Data type as safetensors names it."""
        return "BF16"

    def __getitem__(self, index: EllipsisType) -> torch.Tensor:
        """Returns [experts, in, out] bfloat16; the files have [experts, out, in]."""
        experts = zip(self._blocks[...], self._scales[...], strict=True)
        return torch.stack([dequantize(*each).t() for each in experts])[index]


def dequantize(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Returns the numbers of blocks, which bfloat16 holds exactly.

    Args:
        blocks: [rows, blocks, 16] uint8, two numbers a byte, the lower bits first.
        scales: [rows, blocks] uint8, exponents + 127.

    Returns:
        [rows, 32 · blocks] bfloat16.
    """
    values = torch.tensor((*_MAGNITUDES, *(-each for each in _MAGNITUDES)))
    codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)
    exponents = scales.to(torch.int32) - _BIAS
    numbers = torch.ldexp(values[codes.int()], exponents[..., None])
    return numbers.to(torch.bfloat16).flatten(1)


def dequantized(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Replaces each pair of blocks and scales by the weight of their name.

    Raises:
        ValueError: Blocks have no scales.
    """
    found: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_BLOCKS):
            weight = name.removesuffix(_BLOCKS)
            if weight + _SCALES not in tensors:
                raise ValueError(f"{name} has no {_SCALES[1:]}")
            found[weight] = Mxfp4Tensor(tensor, tensors[weight + _SCALES])
        elif not (name.endswith(_SCALES) and _is_of_blocks(name, tensors)):
            found[name] = tensor
    return found


def _is_of_blocks(name: str, tensors: Mapping[str, StoredTensor]) -> bool:
    return name.removesuffix(_SCALES) + _BLOCKS in tensors
