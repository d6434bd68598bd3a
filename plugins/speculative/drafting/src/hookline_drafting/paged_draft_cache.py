"""Keys and values of a proposer's layers, in the requests' KV blocks.

A block id stands for memory in each of the target's layers and in each of the
proposer's. So the proposer's keys and values are allocated, shared by prefixes, evicted
and freed with the target's.

Drafts may run past the end of a request's blocks. They are then written to spare
blocks, whose content is invalid after the pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hookline.config.engine import EngineConfig
from hookline.config.executor import Kernels
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.extension import CacheShape
from hookline.engine.worker.paged_cache import PagedCache
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.draft_cache import Span
from hookline_drafting.proposer import Proposer, has_layers
from hookline_kernels import AttentionMetadata
from hookline_models.machines.memory import bytes_of_blocks

Int32 = npt.NDArray[np.int32]


class PagedDraftCache:
    """Memory of a proposer's layers, and attention over it; for one thread.

    Attributes:
        max_model_len: Maximum length of a sequence in tokens.
    """

    def __init__(
        self,
        cache: PagedCache,
        *,
        block_size: int,
        num_blocks: int,
        num_spare: int,
        max_model_len: int,
        device: torch.device,
    ) -> None:
        """Wraps a cache of `num_blocks` blocks, followed by spare blocks.

        Each sequence of a pass has `num_spare` of them.
        """
        self._cache, self._block_size = cache, block_size
        self._num_blocks, self._num_spare = num_blocks, num_spare
        self._device = device
        self.max_model_len = max_model_len

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Keys and values of all layers."""
        return [*self._cache.keys, *self._cache.values]

    def with_spare(self, block_ids: Int32, index: int) -> Int32:
        """Returns a request's blocks, followed by spare blocks for its drafts.

        Args:
            block_ids: The request's blocks.
            index: Index of the sequence in a pass, below `max_num_seqs`.
        """
        first = self._num_blocks + index * self._num_spare
        spare = np.arange(first, first + self._num_spare, dtype=np.int32)
        return np.concatenate((block_ids, spare))

    def begin(self, spans: Sequence[Span]) -> torch.Tensor:
        """Lays out a pass for the calls of `attend` that follow.

        Args:
            spans: The tokens of each sequence; spans of one token come first.

        Returns:
            [T] int64 positions of all tokens.

        Raises:
            ValueError: A span has fewer blocks than its tokens need.
        """
        size = self._block_size
        counts = np.array([span.count for span in spans], np.int64)
        starts = np.array([span.start for span in spans], np.int64)
        ends = starts + counts
        tables = np.zeros((len(spans), -(-int(ends.max()) // size)), np.int64)
        for row, span, end in zip(tables, spans, ends.tolist(), strict=True):
            needed = -(-end // size)
            if len(span.block_ids) < needed:  # another request's follow
                raise ValueError(f"{span} has fewer than {needed} blocks")
            row[:needed] = span.block_ids[:needed]
        owner = np.repeat(np.arange(len(spans)), counts)
        first = np.cumsum(counts) - counts
        positions = np.arange(len(owner)) + (starts - first)[owner]
        slots = tables[owner, positions // size] * size + positions % size
        self._cache.batch = AttentionMetadata(
            slot_mapping=self._tensor(slots),
            block_tables=self._tensor(tables),
            query_lens=counts.tolist(),
            seq_lens=ends.tolist(),
            num_decodes=int((counts == 1).sum()),
            seq_lens_tensor=self._tensor(ends),
        )
        return self._tensor(positions)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        """Writes a pass's keys and values, then attends: [T, heads, dim].

        Scores are divided by the square root of the head's size.
        """
        scale = query.shape[-1] ** -0.5
        return self._cache(
            layer, query, key, value, scale=scale, window=None, softcap=None
        )

    def _tensor(self, values: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)


@dataclass(frozen=True, slots=True)
class DraftMemory:
    """Memory that a proposer's layers need.

    Attributes:
        config: The engine's configuration.
        layers: Caches of the layers.
        num_spare: Number of spare blocks for each sequence.
    """

    config: EngineConfig
    layers: tuple[LayerCache, ...]
    num_spare: int

    @classmethod
    def of(
        cls, proposer: Proposer, speculative: SpeculativeConfig, config: EngineConfig
    ) -> "DraftMemory | None":
        """Returns the memory that a prepared proposer needs; None without layers."""
        if not has_layers(proposer):
            return None
        layers = tuple(
            LayerCache(
                layer.num_heads, layer.num_kv_heads, layer.head_dim, layer.head_dim
            )
            for layer in proposer.capabilities.kv_layers
        )
        # The first draft is computed at a position within the request's blocks.
        behind = speculative.most_speculative_tokens - 1
        return cls(config, layers, -(-behind // config.cache.block_size))

    def spare_bytes(self, cache_dtype: torch.dtype) -> int:
        """Returns the size of all spare blocks."""
        return bytes_of_blocks(
            self._all_spare, self.config.cache, self.layers, cache_dtype
        )

    def cache(self, shape: CacheShape) -> PagedDraftCache:
        """Allocates the cache beside a target's cache of this shape."""
        block_size = self.config.cache.block_size
        paged = PagedCache(
            self.layers,
            shape.num_blocks + self._all_spare,
            block_size,
            shape.dtype,
            cache_dtype=shape.cache_dtype,
            may_compile=self.config.executor.kernels is not Kernels.TORCH,
            platform=shape.platform,
        )
        return PagedDraftCache(
            paged,
            block_size=block_size,
            num_blocks=shape.num_blocks,
            num_spare=self.num_spare,
            max_model_len=shape.max_model_len,
            device=shape.platform.device,
        )

    @property
    def _all_spare(self) -> int:
        return self.num_spare * self.config.scheduler.max_num_seqs
