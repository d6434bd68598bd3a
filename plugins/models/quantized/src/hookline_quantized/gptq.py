"""Checkpoints of GPTQ (Frantar et al. 2022), as GPTQModel and AutoGPTQ write them."""

from dataclasses import dataclass

import torch

from hookline_quantized.unpacked import Parts, Unpacked, bit_fields, part


@dataclass(frozen=True, slots=True)
class Gptq:
    """qweight is int32 [in ÷ n, out] with n inputs a word, qzeros [groups, out ÷ n].

    Attributes:
        bits: 8 or 4.
        zero_offset: What is added to stored zero points: 1, or 0 in version 2.
    """

    bits: int
    zero_offset: int
    name = "gptq"
    mark = "qweight"
    parts = frozenset({"qweight", "qzeros", "scales", "g_idx"})

    def shape(self, parts: Parts) -> tuple[int, int]:
        words, outputs = parts[self.mark].get_shape()
        return outputs, words * 32 // self.bits

    def read(self, parts: Parts) -> Unpacked:
        """Implements `CheckpointFormat`."""
        words = bit_fields(part(parts, "qweight"), self.bits)
        codes = words.permute(1, 0, 2).flatten(1)
        zeros = bit_fields(part(parts, "qzeros"), self.bits).flatten(1)
        scales = part(parts, "scales")
        if zeros.shape != scales.shape or scales.shape[1] != len(codes):
            raise ValueError("qzeros and scales of a quantized layer do not fit")
        return Unpacked(
            codes=codes.contiguous(),
            scales=scales.t(),
            zeros=zeros.t().to(torch.int32) + self.zero_offset,
            bits=self.bits,
            group_of=parts["g_idx"][...] if "g_idx" in parts else None,
        )
