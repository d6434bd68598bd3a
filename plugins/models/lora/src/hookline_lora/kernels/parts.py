"""The two matrices of each layer that an adapter changes, for a product of several."""

from collections.abc import Sequence
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
