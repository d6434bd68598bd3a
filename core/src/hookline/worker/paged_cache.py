"""The memory of the KV cache, and attention of a step over it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from hookline.models.attention import KeysAndValues
from hookline.models.probe import LayerCache
from hookline_kernels import (
    CPU,
    ChosenAttention,
    PagedMetadata,
    Platform,
    choose_attention,
    new_keys,
    new_values,
)
from hookline_kernels.choosing import Attention


class PagedCache:
    """K and V of every layer, [blocks, block size, KV heads, head dim] each.

    How they lie in memory is the kernels' choice. Called as the attention of a model
    (`AttentionSlot.attend`): writes the step's K and V, all of them, and then attends.

    Attributes:
        metadata: Of the step under way.
        layout: How a block's keys and values lie in memory, in words.
        attention: What attends, by the shape of the layers.
        is_called_around: Something else is called before and after attention.
    """

    metadata: PagedMetadata

    def __init__(
        self,
        layers: Sequence[LayerCache],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        *,
        may_compile: bool = True,
        platform: Platform = CPU,
        has_trees: bool = False,
    ) -> None:
        """With trees, the metadata of steps may tell what tokens do not see."""

        def memory(
            new: Callable[..., torch.Tensor], heads: int, dim: int
        ) -> torch.Tensor:
            return new(num_blocks, block_size, heads, dim, dtype, platform)

        self.keys = [
            memory(new_keys, layer.num_kv_heads, layer.key_dim) for layer in layers
        ]
        self.values = [
            memory(new_values, layer.num_kv_heads, layer.value_dim) for layer in layers
        ]
        self.attention: dict[LayerCache, ChosenAttention] = {
            layer: choose_attention(
                num_heads=layer.num_heads,
                num_kv_heads=layer.num_kv_heads,
                key_dim=layer.key_dim,
                value_dim=layer.value_dim,
                block_size=block_size,
                dtype=dtype,
                may_compile=may_compile,
                platform=platform,
                has_trees=has_trees,
            )
            for layer in dict.fromkeys(layers)
        }
        self._layers = [self.attention[layer] for layer in layers]
        self.layout = "keys by rows" if platform.is_gpu else "keys by columns"
        self.is_called_around = False

    def call_around(
        self, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        """Has both called with each layer's index: before it reads and after it wrote.

        From the next binding on; without it layers call nothing.
        """

        def around(index: int, attend: Attention) -> Attention:
            def attended(*given: object, **named: object) -> torch.Tensor:
                before(index)
                output = attend(*given, **named)
                after(index)
                return output

            return attended

        self.is_called_around = True
        self._layers = [
            replace(
                layer,
                attend=around(index, layer.attend),
                attend_written=around(index, layer.attend_written),
            )
            for index, layer in enumerate(self._layers)
        ]

    def move(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copies keys and values between slots, [n] int64 each, in all layers.

        All of them are read before any is written.
        """
        size = self.keys[0].shape[1]
        old, new = ((slots // size, slots % size) for slots in (sources, targets))
        for side in (*self.keys, *self.values):
            side[new] = side[old]

    def written_layers(self) -> list[KeysAndValues]:
        """Each layer's K and V, and what attends over them once they are written."""
        chosen = [layer.attend_written for layer in self._layers]
        return list(zip(self.keys, self.values, chosen, strict=True))

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
    ) -> torch.Tensor:
        return self._layers[layer_index].attend(
            query,
            key,
            value,
            keys=self.keys[layer_index],
            values=self.values[layer_index],
            metadata=self.metadata,
            scale=scale,
            window=window,
            softcap=softcap,
        )
