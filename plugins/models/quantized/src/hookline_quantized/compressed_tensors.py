"""Integers of checkpoints of compressed-tensors, as llm-compressor writes them."""

from dataclasses import dataclass

import torch

from hookline_quantized.unpacked import Parts, Unpacked, bit_fields, part

BITS = (4, 8)
_OF_INPUTS = ("input_scale", "input_zero_point")
"""What is stored for activations, which stay as they are."""


@dataclass(frozen=True, slots=True)
class PackQuantized:
    """weight_packed is int32 [out, in ÷ n] with n inputs a word.

    Codes are stored plus 2^(bits - 1); packed zero points, too, n outputs a word. How
    many bits a layer has is seen by its shape, since layers may differ.
    """

    name = "compressed-tensors"
    mark = "weight_packed"
    parts = frozenset(
        {
            "weight_packed",
            "weight_scale",
            "weight_zero_point",
            "weight_shape",
            "weight_g_idx",
            *_OF_INPUTS,
        }
    )

    def shape(self, parts: Parts) -> tuple[int, int]:
        outputs, inputs = (int(size) for size in part(parts, "weight_shape"))
        return outputs, inputs

    def read(self, parts: Parts) -> Unpacked:
        """Implements `CheckpointFormat`."""
        outputs, inputs = self.shape(parts)
        packed = part(parts, "weight_packed")
        bits = 32 * packed.shape[1] // inputs
        if bits not in BITS:
            raise ValueError(f"its weight has {bits} bits; Hookline reads 4 and 8")
        codes = bit_fields(packed, bits).flatten(1)
        scales = part(parts, "weight_scale").view(outputs, -1)
        zeros = torch.full_like(scales, 1 << (bits - 1), dtype=torch.int32)
        if "weight_zero_point" in parts:
            words = part(parts, "weight_zero_point")
            fields = bit_fields(words.t(), bits).flatten(1)
            zeros = fields[:, :outputs].t().to(torch.int32)
        if zeros.shape != scales.shape or len(codes) != outputs:
            raise ValueError("zero points and scales of a quantized layer do not fit")
        return Unpacked(
            codes=codes[:, :inputs].contiguous(),
            scales=scales,
            zeros=zeros,
            bits=bits,
            group_of=parts["weight_g_idx"][...] if "weight_g_idx" in parts else None,
        )


@dataclass(frozen=True, slots=True)
class IntQuantized:
    """weight is int8 [out, in], with as many bits or fewer."""

    bits: int
    name = "compressed-tensors"
    mark = "weight_scale"
    parts = frozenset(
        {"weight", "weight_scale", "weight_zero_point", "weight_g_idx", *_OF_INPUTS}
    )

    def shape(self, parts: Parts) -> tuple[int, int]:
        outputs, inputs = parts["weight"].get_shape()
        return outputs, inputs

    def read(self, parts: Parts) -> Unpacked:
        """Implements `CheckpointFormat`."""
        codes = part(parts, "weight")
        if codes.dtype != torch.int8:
            raise ValueError(f"a quantized weight is {codes.dtype}, not int8")
        middle = 1 << (self.bits - 1)
        scales = part(parts, "weight_scale").view(len(codes), -1)
        zeros = torch.full_like(scales, middle, dtype=torch.int32)
        if "weight_zero_point" in parts:
            stored = part(parts, "weight_zero_point").view(len(codes), -1)
            zeros = stored.to(torch.int32) + middle
        return Unpacked(
            codes=(codes.to(torch.int16) + middle).to(torch.uint8),
            scales=scales,
            zeros=zeros,
            bits=self.bits,
            group_of=parts["weight_g_idx"][...] if "weight_g_idx" in parts else None,
        )
