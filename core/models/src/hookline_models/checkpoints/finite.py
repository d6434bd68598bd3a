"""Finds weights that are no numbers: infinite ones and NaN."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

_PIECE = 1 << 20
"""Numbers that are counted at a time, few enough to stay in a processor's cache."""
_MOST_NAMES = 3
_FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
_LEAST_OF_EIGHT_BITS = {torch.float8_e4m3fn: 0x7F, torch.float8_e5m2: 0x7C}
"""The smallest bits without their sign that are no finite number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """A tensor with numbers that are infinite or NaN.

    Attributes:
        name: The tensor's.
        count: How many of its numbers.
        total: How many it has.
        first_row: Index of the first row with one, along its first dimension.
    """

    name: str
    count: int
    total: int
    first_row: int

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.count} of {self.total} numbers, the first in row "
            f"{self.first_row})"
        )


def non_finite(
    name: str, tensor: torch.Tensor, *, first_row: int = 0
) -> NonFinite | None:
    """Returns what a tensor has that is no finite number; None if it has nothing.

    A tensor without any is read once. `first_row` is the index of its first row, if it
    is a part of another.
    """
    if not tensor.numel() or _is_finite(tensor):
        return None
    found = [
        _wrong(piece).nonzero()[:, 0] + start
        for start, piece in _pieces(tensor.detach().flatten())
    ]
    wrong = torch.cat(found)
    rows = tensor.shape[0] if tensor.ndim else 1
    return NonFinite(
        name=name,
        count=len(wrong),
        total=tensor.numel(),
        first_row=first_row + int(wrong[0]) // (tensor.numel() // rows),
    )


def joined(parts: Sequence[NonFinite], total: int) -> NonFinite:
    """Returns what a tensor of `total` numbers has, by that of parts, in order."""
    count = sum(each.count for each in parts)
    return replace(parts[0], count=count, total=total)


def non_finite_weights(model: nn.Module) -> list[NonFinite]:
    """Returns a model's parameters that are not finite throughout."""
    found = (non_finite(name, each) for name, each in model.named_parameters())
    return [each for each in found if each is not None]


def in_words(found: Iterable[NonFinite]) -> str:
    """Names the first few of them."""
    named = [str(each) for each in found]
    more = len(named) - _MOST_NAMES
    shown = ", ".join(named[:_MOST_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def _is_finite(tensor: torch.Tensor) -> bool:
    """Whether all numbers are finite; NaN is its own least and largest number."""
    if (least := _LEAST_OF_EIGHT_BITS.get(tensor.dtype)) is not None:
        pieces = _pieces(tensor.detach().flatten())
        return all(int(_magnitudes(piece).amax()) < least for _, piece in pieces)
    if tensor.dtype not in _FLOATS:
        return True
    return all(math.isfinite(float(each)) for each in torch.aminmax(tensor.detach()))


def _pieces(flat: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    start = 0
    for piece in flat.split(_PIECE):
        yield start, piece
        start += len(piece)


def _wrong(piece: torch.Tensor) -> torch.Tensor:
    """Returns which numbers are not finite."""
    least = _LEAST_OF_EIGHT_BITS.get(piece.dtype)
    if least is None:
        return ~piece.isfinite()
    return _magnitudes(piece) >= least


def _magnitudes(piece: torch.Tensor) -> torch.Tensor:
    """Returns the bits of numbers of eight bits without their sign."""
    return piece.view(torch.uint8) & 0x7F
