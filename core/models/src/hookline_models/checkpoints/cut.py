"""The part of a stored tensor that one rank holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Protocol

import torch

Index = EllipsisType | tuple[slice, ...]


class Stored(Protocol):
    """A tensor in a safetensors file or in memory, read where it is indexed."""

    def get_dtype(self) -> str: ...

    def get_shape(self) -> list[int]: ...

    def __getitem__(self, index: Index) -> torch.Tensor: ...


class WeightPlan(Protocol):
    """Which part of each of a model's tensors a rank reads."""

    def has(self, name: str) -> bool:
        """Whether the rank has any part of a tensor, by its name in a file."""
        ...

    def cut(self, name: str, shape: Sequence[int]) -> "Cut":
        """Returns the rank's part of a tensor, by its name in a file or a model.

        Raises:
            ValueError: The ranks cannot divide it evenly.
        """
        ...


_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}


class InMemory:
    """A tensor in memory; implements `Stored`."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Wraps a tensor; parts of it are copies."""
        self._tensor = tensor

    def get_dtype(self) -> str:
        return _NAMES.get(self._tensor.dtype, "F32")

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def __getitem__(self, index: Index) -> torch.Tensor:
        return self._tensor[index].clone()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Which part of a tensor to read; by default all of it.

    Attributes:
        dim: Dimension along which it is cut.
        pieces: Ranges along it, joined in this order; None is everything.
        padding: Number of zeros behind them.
        is_zero: All numbers become zero, because another rank has them.
    """

    dim: int = 0
    pieces: tuple[tuple[int, int], ...] | None = None
    padding: int = 0
    is_zero: bool = False

    def shape(self, whole: Sequence[int]) -> list[int]:
        """Returns the part's shape."""
        sizes = list(whole)
        if self.pieces is not None:
            width = sum(stop - start for start, stop in self.pieces)
            sizes[self.dim] = width + self.padding
        return sizes

    def read(self, source: Stored) -> torch.Tensor:
        """Reads the part, and nothing else of the tensor."""
        if self.pieces is None:
            whole = source[...]
            return torch.zeros_like(whole) if self.is_zero else whole
        before = (slice(None),) * self.dim
        parts = [source[*before, slice(*piece)] for piece in self.pieces]
        if self.padding:
            parts.append(self._padding_like(parts[0]))
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, self.dim)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the part of a tensor in memory."""
        return self.read(InMemory(tensor))

    def _padding_like(self, part: torch.Tensor) -> torch.Tensor:
        sizes = list(part.shape)
        sizes[self.dim] = self.padding
        return part.new_zeros(sizes)


ALL = Cut()
"""The whole tensor."""
