"""What the layers of a usual decoder are made of, whatever device computes them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from hookline.models.adapt.normed import Product
from hookline.models.adapt.norms import FastNorm
from hookline_kernels.head_shape import HeadNorms, HeadShape

if TYPE_CHECKING:
    from hookline.models.decoder.layer import DecoderLayer, Step


class HeadsCache(Protocol):
    """Norms and turns a layer's heads, and writes keys and values to its cache."""

    def bind(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Gives it the layer's cache."""
        ...

    def __call__(
        self,
        heads: torch.Tensor,
        *,
        angles: tuple[torch.Tensor, torch.Tensor],
        positions: torch.Tensor,
        slots: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values [T, heads, dim] of [T, all heads' numbers].

        `heads` may be changed; `angles` are those that `StepAngles` gave.
        """
        ...


class StepAngles(Protocol):
    """The angles of rotary embedding."""

    def of(
        self, positions: torch.Tensor, longest: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """For a step of T positions, all below `longest`, as `HeadsCache` takes them.

        Returns:
            Cosines and sines.
        """
        ...


class LayersAgain(Protocol):
    """Does what the layers do, for some steps."""

    def __call__(self, hidden: torch.Tensor, step: "Step") -> torch.Tensor | None:
        """[T, hidden] → the same, until the next call; None if it is not for this."""
        ...


class Kit(Protocol):
    """Makes the parts for one kind of device, each of which one thread calls."""

    def norm(self, module: nn.Module) -> FastNorm | None:
        """None if the module is no RMSNorm, or has no kernel."""
        ...

    def product(self, linears: Sequence[nn.Linear]) -> Product:
        """The results of several layers side by side, or of one."""
        ...

    def gated(self, module: nn.Module) -> Product | None:
        """None if the module is no gated feed-forward layer, or has no kernel."""
        ...

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> HeadsCache:
        """Raises `KernelError` if there is none for the shape."""
        ...

    def angles(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> StepAngles:
        """Of a model's own module, which is never asked for more than `limit`.

        Raises:
            NotDecoder: It turns other pairs, or only a part of a head.
        """
        ...

    def layers_again(
        self, layers: "Sequence[DecoderLayer]", embedding: torch.Tensor
    ) -> LayersAgain | None:
        """For layers that are bound to a cache, behind this embedding.

        None where a step has nothing to be started at once.
        """
        ...
