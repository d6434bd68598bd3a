"""One layer of a usual decoder, in a few calls."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from hookline.models.adapt.linears import are_joinable
from hookline.models.adapt.normed import Normed
from hookline.models.adapt.norms import FastNorm
from hookline.models.decoder.layer_ops import Kit
from hookline.models.decoder.parts import LayerParts, NotDecoder
from hookline.models.probe import LayerAttention
from hookline_kernels import PagedMetadata
from hookline_kernels.head_shape import HeadNorms, HeadShape

AttendWritten = Callable[..., torch.Tensor]
"""Attention of a step whose keys and values are in the cache already."""


@dataclass(frozen=True, slots=True)
class Step:
    """What all layers of a step share.

    Attributes:
        positions: [T] int64.
        angles: Cosines and sines, of the kit's `StepAngles`.
        metadata: Of the batch.
    """

    positions: torch.Tensor
    angles: tuple[torch.Tensor, torch.Tensor]
    metadata: PagedMetadata


class DecoderLayer:
    """h += attention(norm(h)), then h += feed_forward(norm(h)).

    Attributes:
        is_capturable: As of `Decoder`.
    """

    def __init__(
        self, parts: LayerParts, shape: HeadShape, attention: LayerAttention, kit: Kit
    ) -> None:
        """Takes the weights of the parts; packs them where that pays.

        Raises:
            NotDecoder: A part is not what its name says.
            KernelError: There are no kernels for it on this machine.
        """
        products = [parts.query, parts.key, parts.value]
        if not are_joinable(products):
            raise NotDecoder("its queries, keys and values are no equal linear layers")
        norm = kernel_norm(kit, parts.attention_norm)
        self._heads = Normed(norm, kit.product(products))
        self._cache = kit.heads_cache(shape, _head_norms(kit, parts))
        self._attention = attention
        self._attend: AttendWritten | None = None
        self._output = kit.product([parts.output])
        norm = kernel_norm(kit, parts.feed_forward_norm)
        gated = kit.gated(parts.feed_forward)
        self.is_capturable = gated is not None
        self._feed_forward = Normed(norm, gated or _Other(parts.feed_forward))

    def bind(
        self, keys: torch.Tensor, values: torch.Tensor, attend: AttendWritten
    ) -> None:
        """Gives the layer its cache, and what attends over it."""
        self._cache.bind(keys, values)
        self._attend = partial(
            attend,
            keys=keys,
            values=values,
            scale=self._attention.scale,
            window=self._attention.window,
            softcap=self._attention.softcap,
        )

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        """[T, hidden] → the same; what is given is used up."""
        assert self._attend is not None
        query, key, value = self._cache(
            self._heads(hidden),
            angles=step.angles,
            positions=step.positions,
            slots=step.metadata.slots,
        )
        attended = self._attend(query, key, value, metadata=step.metadata)
        hidden = self._output(attended.flatten(1), hidden)
        return self._feed_forward(hidden, hidden)


class _Other:
    """A feed-forward layer of another kind, such as experts."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        found = self._module(values[None])
        if isinstance(found, tuple):  # with what a router said
            found = found[0]
        assert isinstance(found, torch.Tensor)
        return found[0] if summand is None else summand + found[0]


def kernel_norm(kit: Kit, module: nn.Module) -> FastNorm:
    """Raises `NotDecoder` if the module is none that a kernel computes."""
    found = kit.norm(module)
    if found is None:
        raise NotDecoder("its norms are no RMSNorm that a kernel computes")
    return found


def _head_norms(kit: Kit, parts: LayerParts) -> HeadNorms | None:
    if parts.query_norm is None or parts.key_norm is None:
        return None
    query, key = (kernel_norm(kit, norm) for norm in (parts.query_norm, parts.key_norm))
    if query.unit_offset or key.unit_offset or query.epsilon != key.epsilon:
        raise NotDecoder("its norms of heads are not plain ones")
    return HeadNorms(query.weight, key.weight, query.epsilon)
