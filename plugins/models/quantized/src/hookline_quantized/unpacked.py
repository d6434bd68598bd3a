"""The integers of a quantized layer, as a checkpoint's format describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from hookline_kernels.quantized_weight import QuantizedWeight, pack
from hookline_models.checkpoints.cut import Cut
from hookline_models.quantization import StoredTensor

Parts = Mapping[str, StoredTensor]
"""A layer's tensors by the last part of their names."""


class CheckpointFormat(Protocol):
    """How a kind of checkpoint stores quantized layers.

    Attributes:
        name: Name of the format, for errors and the log.
        mark: The part that every quantized layer has and no other.
        parts: All parts that belong to a quantized weight.
    """

    name: str
    mark: str
    parts: frozenset[str]

    def shape(self, parts: Parts) -> tuple[int, int]:
        """Returns outputs and inputs of a layer; reads only headers."""
        ...

    def read(self, parts: Parts) -> "Unpacked":
        """Reads a layer.

        Raises:
            ValueError: A part is missing, or does not fit the others.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A weight (code - zero) · scale.

    Attributes:
        codes: uint8 [out, in], 0 … 2^bits - 1.
        scales: [out, groups].
        zeros: [out, groups], in the domain of the codes.
        bits: 8 or 4.
        group_of: Group of each input, [in]; None if groups are neighbours.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    bits: int
    group_of: torch.Tensor | None = None

    def part(self, cut: Cut) -> "Unpacked":
        """Returns the outputs, or the inputs, that one rank holds.

        Raises:
            ValueError: The part ends within a group of inputs.
        """
        if cut.pieces is None:
            return self
        if cut.dim == 0:
            codes, scales, zeros = map(cut.of, self._by_output)
            return replace(self, codes=codes, scales=scales, zeros=zeros)
        ((start, stop),) = cut.pieces
        columns = self._groups_of(start, stop)
        group_of = self.group_of
        return replace(
            self,
            codes=self.codes[:, start:stop].contiguous(),
            scales=self.scales[:, columns],
            zeros=self.zeros[:, columns],
            group_of=None if group_of is None else group_of[start:stop] - columns.start,
        )

    @property
    def _by_output(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.codes, self.scales, self.zeros

    def _groups_of(self, start: int, stop: int) -> slice:
        """Returns the groups of some inputs.

        Raises:
            ValueError: Inputs of these groups are left out.
        """
        inputs, groups = self.codes.shape[1], self.scales.shape[1]
        if groups == 1:
            return slice(0, 1)
        if self.group_of is not None:
            own = self.group_of[start:stop]
            first, last = int(own.min()), int(own.max())
            count = int(((self.group_of >= first) & (self.group_of <= last)).sum())
            is_whole = count == stop - start
        else:
            width = inputs // groups
            first, last = start // width, (stop - 1) // width
            is_whole = start % width == stop % width == 0
        if not is_whole:
            raise ValueError(
                f"ranks cannot divide its {inputs} inputs between {groups} groups that "
                "share scales"
            )
        return slice(first, last + 1)

    def values(self) -> torch.Tensor:
        """Returns the weight's numbers, [out, in] float32.

        Raises:
            ValueError: Groups are missing, or do not divide the inputs.
        """
        inputs = self.codes.shape[1]
        scales, zeros = self.scales.float(), self.zeros.float()
        group_of = self.group_of
        if group_of is None:
            groups = scales.shape[1]
            if inputs % groups:
                raise ValueError(f"{groups} groups do not divide its {inputs} inputs")
            group_of = torch.arange(inputs) // (inputs // groups)
        group_of = group_of.long()
        return (self.codes.float() - zeros[:, group_of]) * scales[:, group_of]

    def packed(self) -> QuantizedWeight:
        """Returns the weight as kernels read it.

        Raises:
            ValueError: The groups differ in size.
            KernelError: No kernel supports the shape.
        """
        middle = 1 << (self.bits - 1)
        codes, scales = self.codes, self.scales.float()
        shifts = scales * (middle - self.zeros.float())
        order = None
        if self.group_of is not None and bool((self.group_of.diff() < 0).any()):
            order = self.group_of.argsort(stable=True)
            codes = codes[:, order]
        if self.group_of is not None:
            self._check_groups(self.group_of)
        return pack(
            (codes ^ middle).view(torch.int8) if self.bits == 8 else _centred(codes),
            scales,
            shifts if bool(shifts.any()) else None,
            bits=self.bits,
            order=order,
        )

    def _check_groups(self, group_of: torch.Tensor) -> None:
        sizes = torch.bincount(group_of.long(), minlength=self.scales.shape[1])
        if len(sizes) != self.scales.shape[1] or bool((sizes != sizes[0]).any()):
            raise ValueError("its groups of inputs (g_idx) differ in size")


def _centred(codes: torch.Tensor) -> torch.Tensor:
    """Returns 4-bit codes minus 8."""
    return codes.view(torch.int8) - 8


def bit_fields(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Unpacks int32 [a, b] to uint8 [a, b, 32 ÷ bits], from the lowest bits on."""
    count, mask = 32 // bits, (1 << bits) - 1
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    fields = (words[..., None] >> shifts) & mask
    assert fields.shape[-1] == count
    return fields.to(torch.uint8)


def part(parts: Parts, name: str) -> torch.Tensor:
    """Reads a part.

    Raises:
        ValueError: It is missing.
    """
    if name not in parts:
        raise ValueError(f"a quantized layer has no {name}")
    return parts[name][...]
