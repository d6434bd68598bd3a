"""Checkpoints of AWQ (Lin et al. 2023), as AutoAWQ writes them (version "gemm")."""

from dataclasses import dataclass

import torch

from hookline_quantized.unpacked import Parts, Unpacked, bit_fields, part

_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a word of each of 8 neighbouring outputs."""
_BITS = 4


@dataclass(frozen=True, slots=True)
class Awq:
    """qweight is int32 [in, out ÷ 8], qzeros [groups, out ÷ 8]: outputs interleave."""

    name = "awq"
    mark = "qweight"
    parts = frozenset({"qweight", "qzeros", "scales"})

    def shape(self, parts: Parts) -> tuple[int, int]:
        inputs, words = parts[self.mark].get_shape()
        return words * 8, inputs

    def read(self, parts: Parts) -> Unpacked:
        """Implements `CheckpointFormat`."""
        codes, zeros = (
            bit_fields(part(parts, name), _BITS)[..., _ORDER].flatten(1).t()
            for name in ("qweight", "qzeros")
        )
        scales = part(parts, "scales").t()
        if zeros.shape != scales.shape or len(scales) != len(codes):
            raise ValueError("qzeros and scales of a quantized layer do not fit")
        return Unpacked(
            codes=codes.contiguous(),
            scales=scales,
            zeros=zeros.to(torch.int32),
            bits=_BITS,
        )
