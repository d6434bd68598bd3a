"""The memory of the KV cache, and attention of a step over it."""

import itertools
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Self

import torch

from hookline.engine.decoder.layer_shapes import KeysAndValues, LayerCache
from hookline_kernels import (
    CPU,
    Attend,
    AttentionLayer,
    AttentionMetadata,
    ChosenAttention,
    Platform,
    choose_attention,
    new_keys,
    new_values,
)
from hookline_kernels.layout import scales_of


class PagedCache:
    """K and V of every layer, [blocks, block size, KV heads, head dim] each.

    The kernels choose the memory layout; the values of latent layers are views of their
    keys. Callable as the attention of a model that runs as modules
    (`AttentionSlot.attend`): writes the step's K and V, then attends.

    Attributes:
        batch: The step that is being computed; set before the model is called.
        layout: Memory layout of a block's keys and values, as a name.
        attention: Attention of the layers, by their shape.
        is_called_around: Callbacks run before and after each layer's attention.
    """

    batch: AttentionMetadata

    def __init__(
        self,
        layers: Sequence[LayerCache],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        *,
        cache_dtype: torch.dtype | None = None,
        may_compile: bool = True,
        platform: Platform = CPU,
        has_trees: bool = False,
    ) -> None:
        """Allocates the memory; with `has_trees`, steps may carry a `TreeMask`.

        The cache has the dtype of the model, or `cache_dtype`.
        """
        stored = cache_dtype or dtype
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        for layer in layers:
            keys, values = _allocate(layer, num_blocks, block_size, stored, platform)
            self.keys.append(keys)
            self.values.append(values)
        self._shapes = tuple(layers)
        self._attention_of = partial(
            choose_attention,
            block_size=block_size,
            dtype=dtype,
            cache_dtype=stored,
            platform=platform,
            has_trees=has_trees,
        )
        self.choose_attention(may_compile=may_compile)
        self.layout = "keys by rows" if platform.is_gpu else "keys by columns"
        if self.spec_kind == "mla_attention":
            self.layout = "latent keys by rows"
        self.is_called_around = False

    @property
    def spec_kind(self) -> str:
        """What it holds, in vLLM's words: `full_attention` or `mla_attention`."""
        is_latent = any(layer.is_latent for layer in self._shapes)
        return "mla_attention" if is_latent else "full_attention"

    def with_kernels(self) -> Self:
        """Returns a cache in the same memory, whose attention uses kernels."""
        cache = copy(self)
        cache.choose_attention(may_compile=True)
        return cache

    def choose_attention(self, *, may_compile: bool) -> None:
        """Chooses the attention of each layer; takes effect at the next binding."""
        self.attention: dict[LayerCache, ChosenAttention] = {
            layer: self._attention_of(
                num_heads=layer.num_heads,
                num_kv_heads=layer.num_kv_heads,
                key_dim=layer.key_dim,
                value_dim=layer.value_dim,
                is_latent=layer.is_latent,
                may_compile=may_compile,
            )
            for layer in dict.fromkeys(self._shapes)
        }
        self._chosen = [self.attention[layer] for layer in self._shapes]
        self._layers: list[AttentionLayer | None] = [None] * len(self._shapes)

    def call_around(
        self, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        """Calls both with each layer's index, before and after its attention.

        Takes effect at the next binding.
        """

        def around(index: int, attend: Attend) -> Attend:
            def attended(
                query: torch.Tensor,
                key: torch.Tensor,
                value: torch.Tensor,
                layer: AttentionLayer,
                batch: AttentionMetadata,
            ) -> torch.Tensor:
                before(index)
                output = attend(query, key, value, layer, batch)
                after(index)
                return output

            return attended

        self.is_called_around = True
        self._chosen = [
            replace(
                chosen,
                attend=around(index, chosen.attend),
                attend_written=around(index, chosen.attend_written),
            )
            for index, chosen in enumerate(self._chosen)
        ]

    def sides(self) -> list[list[torch.Tensor]]:
        """Returns the tensors that own each layer's memory."""
        return [
            [keys] if layer.is_latent else [keys, values]
            for layer, keys, values in zip(
                self._shapes, self.keys, self.values, strict=True
            )
        ]

    def move(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copies keys and values between slots, [n] int64 each, in all layers.

        Reads all of them before it writes any.
        """
        size = self.keys[0].shape[1]
        old, new = ((slots // size, slots % size) for slots in (sources, targets))
        for side in itertools.chain.from_iterable(self.sides()):
            side[new] = side[old]
            if (scales := scales_of(side)) is not None:
                scales[new] = scales[old]

    def written_layers(self) -> list[KeysAndValues]:
        """Returns each layer's K and V, and attention over them once written."""
        attend = [chosen.attend_written for chosen in self._chosen]
        return list(zip(self.keys, self.values, attend, strict=True))

    def __call__(
        self,
        layer_index: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        is_latent: bool = False,
    ) -> torch.Tensor:
        """Writes the K and V of one layer, then attends: [T, heads, value dim].

        Sinks and slopes are those of the layer's first call.
        """
        assert is_latent == self._shapes[layer_index].is_latent
        layer = self._layers[layer_index]
        if layer is None or (scale, window, softcap) != (
            layer.scale,
            layer.window,
            layer.softcap,
        ):
            layer = self._layers[layer_index] = AttentionLayer(
                self.keys[layer_index],
                self.values[layer_index],
                scale,
                window,
                softcap,
                *(None if each is None else each.float() for each in (sinks, slopes)),
            )
        attend = self._chosen[layer_index].attend
        return attend(query, key, value, layer, self.batch)


def _allocate(
    layer: LayerCache,
    num_blocks: int,
    block_size: int,
    dtype: torch.dtype,
    platform: Platform,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocates a layer's keys and values; those of a latent layer share memory."""
    place = (dtype, platform)
    sizes = (num_blocks, block_size, layer.num_kv_heads)
    if layer.is_latent:
        keys = new_values(*sizes, layer.key_dim, *place)
        return keys, keys[..., : layer.value_dim]
    keys = new_keys(*sizes, layer.key_dim, *place)
    return keys, new_values(*sizes, layer.value_dim, *place)
