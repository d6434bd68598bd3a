"""A decoder layer, computed in a few kernel calls."""

import torch
from torch import nn

from hookline.engine.decoder.layer_shapes import LayerAttention
from hookline.engine.decoder.parts import LayerParts, NotDecoder
from hookline_kernels import Attend
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.layer_ops import LayerOps
from hookline_kernels.metadata import CosSin, LayerMetadata
from hookline_kernels.modules.linears import are_joinable
from hookline_kernels.modules.norms import FastNorm
from hookline_kernels.modules.pre_norm import PreNorm
from hookline_kernels.modules.quantized_layer import are_quantized
from hookline_kernels.modules.reduction import reduced


class DecoderLayer:
    """h += attention(norm(h)), then h += feed_forward(norm(h)).

    Each product adds h itself; with a reduction, that of one rank does.

    Attributes:
        heads: Norm before attention, and queries, keys and values side by side.
        output: Attention's output product.
        feed_forward: The second norm, and the feed-forward layer.
        is_capturable: A CUDA graph can capture it: no part may wait for the device.
    """

    def __init__(
        self,
        parts: LayerParts,
        shape: HeadShape,
        attention: LayerAttention,
        ops: LayerOps,
    ) -> None:
        """Builds the layer from its modules; packs weights where that is faster.

        Raises:
            NotDecoder: A part has another structure.
            KernelError: No kernels support it on this machine.
        """
        products = [parts.query, parts.key, parts.value]
        if not are_joinable(products) and not are_quantized(products):
            raise NotDecoder("its queries, keys and values are not alike linear layers")
        norm = kernel_norm(ops, parts.attention_norm)
        self.heads = PreNorm(norm, ops.product(products))
        self._cache = ops.heads_cache(shape, _head_norms(ops, parts))
        self._attention = attention
        self.output = reduced(ops.product([parts.output]), ops.reduce)
        norm = kernel_norm(ops, parts.feed_forward_norm)
        gated = ops.gated_mlp(parts.feed_forward)
        feed_forward = reduced(gated or _ModuleProduct(parts.feed_forward), ops.reduce)
        self.feed_forward = PreNorm(norm, feed_forward)
        self.is_capturable = gated is not None and (
            ops.reduce is None or ops.reduce.is_capturable
        )

    def bind(self, keys: torch.Tensor, values: torch.Tensor, attend: Attend) -> None:
        """Sets the layer's cache, and the attention over it."""
        self._cache.bind(keys, values)
        self._attend = attend
        self._layer = self._attention.over(keys, values)

    def __call__(
        self, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor:
        """[T, hidden] → [T, hidden]; may overwrite its input. Must be bound."""
        attended = self.attend(self.heads(hidden), batch, rotary)
        hidden = self.output(attended, hidden)
        return self.feed_forward(hidden, hidden)

    def attend(
        self, heads: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor:
        """[T, all heads · dim], which it may overwrite → [T, query heads · dim]."""
        query, key, value = self._cache(
            heads, rotary=rotary, positions=batch.positions, slots=batch.slot_mapping
        )
        return self._attend(query, key, value, self._layer, batch).flatten(1)


class _ModuleProduct:
    """A feed-forward layer that runs as its module, such as experts."""

    of_blocks = None

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        found = self._module(values[None])
        if isinstance(found, tuple):  # with router logits
            found = found[0]
        assert isinstance(found, torch.Tensor)
        return found[0] if residual is None else residual + found[0]


def kernel_norm(ops: LayerOps, module: nn.Module) -> FastNorm:
    """Returns the kernel of a norm.

    Raises:
        NotDecoder: No kernel computes this norm.
    """
    found = ops.norm(module)
    if found is None:
        raise NotDecoder("its norms are not RMSNorms that a kernel computes")
    return found


def _head_norms(ops: LayerOps, parts: LayerParts) -> HeadNorms | None:
    if parts.query_norm is None or parts.key_norm is None:
        return None
    query, key = (kernel_norm(ops, norm) for norm in (parts.query_norm, parts.key_norm))
    if query.unit_offset or key.unit_offset or query.epsilon != key.epsilon:
        raise NotDecoder("its head norms are not plain RMSNorms of one epsilon")
    return HeadNorms(query.weight, key.weight, query.epsilon)
