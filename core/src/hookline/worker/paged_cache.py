"""The memory of the KV cache, and attention of a step over it."""

from collections.abc import Sequence

import torch

from hookline.models.probe import LayerCache
from hookline_kernels import PagedMetadata, paged_attention, write_cache


class PagedCache:
    """K and V of every layer, [blocks, block size, KV heads, head dim] each.

    Called as the attention of a model (`AttentionSlot.attend`): writes the step's K
    and V, all of them, and then attends.

    Attributes:
        metadata: Of the step under way.
    """

    metadata: PagedMetadata

    def __init__(
        self,
        layers: Sequence[LayerCache],
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
    ) -> None:
        def zeros(layer: LayerCache, width: int) -> torch.Tensor:
            shape = (num_blocks, block_size, layer.num_kv_heads, width)
            return torch.zeros(shape, dtype=dtype)

        self.keys = [zeros(layer, layer.key_dim) for layer in layers]
        self.values = [zeros(layer, layer.value_dim) for layer in layers]

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
        keys, values = self.keys[layer_index], self.values[layer_index]
        write_cache(keys, key, self.metadata)
        write_cache(values, value, self.metadata)
        return paged_attention(
            query,
            keys,
            values,
            self.metadata,
            scale=scale,
            window=window,
            softcap=softcap,
        )
