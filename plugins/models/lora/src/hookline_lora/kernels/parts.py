"""The two matrices of each layer that an adapter changes, for a product of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hookline_lora.kernels.slices import Slice


class Matrices(NamedTuple):
    """An adapter's layer: it adds B·(A·x).

    Attributes:
        a: [rank, in].
        b: [out, rank], with the adapter's scale.
    """

    a: torch.Tensor
    b: torch.Tensor


@dataclass(frozen=True, slots=True)
class PackedParts:
    """An adapter's matrices for one site, as its kernels read them; for any slot.

    Attributes:
        a: [ranks, in] of all slices. On CPUs inputs fill steps of 64 bytes.
        b: Each slice's [width, rank]; on CPUs its [panels, rank, 16] in float32, or
            [panels, rank ÷ 2, 16, 2] in bfloat16. None for those left alone.
        ranks: The rank of each slice, even in bfloat16 on CPUs; 0 for those left alone.
    """

    a: torch.Tensor
    b: tuple[torch.Tensor | None, ...]
    ranks: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of memory."""
        return self.a.nbytes + sum(
            0 if each is None else each.nbytes for each in self.b
        )


Parts = Sequence[tuple[torch.Tensor, torch.Tensor] | None]
"""Matrices of each slice of a product; None for those that an adapter leaves alone."""


def checked(
    parts: Parts, in_features: int, slices: Sequence[Slice]
) -> list[Matrices | None]:
    """Returns the parts with names.

    Raises:
        ValueError: A shape is wrong.
    """
    if len(parts) != len(slices):
        raise ValueError(f"a product of {len(slices)} layers, not {len(parts)}")
    found: list[Matrices | None] = []
    for part, own in zip(parts, slices, strict=True):
        if part is None:
            found.append(None)
            continue
        a, b = part
        rank = len(a)
        if a.shape != (rank, in_features) or b.shape != (own.width, rank) or not rank:
            raise ValueError(
                f"A {tuple(a.shape)} and B {tuple(b.shape)} do not fit a layer of "
                f"{in_features} inputs and {own.width} outputs"
            )
        found.append(Matrices(a, b))
    return found
