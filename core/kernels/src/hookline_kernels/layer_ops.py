"""The operations that a decoder's layers are made of, for any device."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn

from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.metadata import CosSin, Layer, LayerMetadata
from hookline_kernels.modules.norms import FastNorm
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.modules.reduction import Reduce


class HeadsCache(Protocol):
    """Normalises and rotates a layer's heads, and caches its keys and values."""

    def bind(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Sets the layer's cache."""
        ...

    def __call__(
        self,
        heads: torch.Tensor,
        *,
        rotary: CosSin,
        positions: torch.Tensor,
        slots: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns queries, keys and values [T, heads, dim] of [T, all heads · dim].

        It may overwrite `heads`; keys and values are also written to the cache.
        """
        ...


class RotaryTable(Protocol):
    """Cosines and sines of rotary embedding by position."""

    def rows(self, positions: torch.Tensor, longest: int) -> CosSin:
        """Returns those of a step of T positions, all below `longest`."""
        ...


class StepReplay(Protocol):
    """Replays recorded steps of all layers.

    Attributes:
        reason: Why steps are not replayed, or not all; empty while nothing is wrong.
    """

    reason: str

    def __call__(
        self, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor | None:
        """Returns [T, hidden], valid until the next call; None if it has no recording.

        Args:
            hidden: [T, hidden], the first layer's input.
            batch: The step's.
            rotary: The step's.
        """
        ...


class LayerOps(Protocol):
    """Makes a decoder's operations for one kind of device; one thread calls each.

    Attributes:
        reduce: Sums the results of attention's output product and of feed-forward
            layers over ranks; None if weights are not split.
    """

    @property
    def reduce(self) -> Reduce | None: ...

    def norm(self, module: nn.Module) -> FastNorm | None:
        """Returns None if the module is not an RMSNorm, or no kernel supports it."""
        ...

    def product(self, linears: Sequence[nn.Linear]) -> Product:
        """Joins several linear layers of the same input, or takes one."""
        ...

    def gated_mlp(self, module: nn.Module) -> Product | None:
        """Returns None if the module is not a gated MLP, or no kernel supports it."""
        ...

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> HeadsCache:
        """Raises `KernelError` if no kernel supports the shape."""
        ...

    def rotary_table(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> RotaryTable:
        """Reads a model's rotary module, at positions below `limit` only.

        Raises:
            KernelError: It rotates other pairs, or only a part of each head.
        """
        ...

    def step_replay(
        self, layers: Sequence[Layer], like: torch.Tensor
    ) -> StepReplay | None:
        """Returns what replays steps of these layers, which are bound to a cache.

        Their inputs are [T, hidden] like `like`. None if this device gains nothing by
        it, or the layers cannot be recorded.
        """
        ...
