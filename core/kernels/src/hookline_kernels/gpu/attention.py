"""Paged attention of a step on a GPU."""

import itertools

import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.failure import KernelError
from hookline_kernels.gpu.cache import write_cache
from hookline_kernels.gpu.decode import choose_splits, decode_attention
from hookline_kernels.gpu.new_tokens import new_tokens_attention, reads_new_tokens
from hookline_kernels.gpu.prefill import prefill_attention
from hookline_kernels.gpu.tilings import fetches_tiles
from hookline_kernels.metadata import AttentionMetadata

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_ROW_BYTES = 1024
"""Largest key or value of a head, in bytes, that fits into shared memory."""


class TritonAttention:
    """Writes a step's keys and values and attends, for layers of one shape.

    The first layer of a step computes what all layers share. The lengths of a batch
    that is captured in a CUDA graph must be upper bounds of those that the graph is
    replayed with. For one thread.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        block_size: int,  # noqa: ARG002 - other platforms compile for it
        dtype: torch.dtype,
    ) -> None:
        """Checks the shape; kernels are compiled at their first call.

        Args:
            num_heads: Number of query heads.
            num_kv_heads: Number of KV heads; divides `num_heads`.
            key_dim: Width of a head's query and key.
            value_dim: Width of a head's value.
            block_size: Tokens in a block of the cache.
            dtype: Of queries and cache.

        Raises:
            KernelError: No kernel supports this shape.
        """
        if dtype not in DTYPES:
            raise KernelError(f"no Triton attention for {dtype}")
        if max(key_dim, value_dim) * dtype.itemsize > MOST_ROW_BYTES:
            raise KernelError(
                f"no Triton attention for heads of {max(key_dim, value_dim)} "
                f"numbers of {dtype}; at most {MOST_ROW_BYTES // dtype.itemsize} fit"
            )
        if num_heads % num_kv_heads:
            raise KernelError(f"{num_kv_heads} KV heads do not divide {num_heads}")
        self._num_kv_heads = num_kv_heads
        self._batch: AttentionMetadata | None = None
        self._starts, self._longest = torch.empty(0), 0
        self._has_cached = self._fetches = False

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: AttentionLayer,
        batch: AttentionMetadata,
    ) -> torch.Tensor:
        """Like `reference_attention`; the caches may have any strides."""
        write_cache(key, value, layer.keys, layer.values, batch.slot_mapping)
        return self.attend_written(query, key, value, layer, batch)

    def attend_written(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: AttentionLayer,
        batch: AttentionMetadata,
    ) -> torch.Tensor:
        """Attends over cached keys and values."""
        if batch is not self._batch:
            self._begin(batch, query.device)
        output = query.new_empty(*query.shape[:2], layer.values.shape[-1])
        decodes = batch.num_decodes
        if decodes:
            decode_attention(
                query[:decodes],
                layer,
                batch.block_tables[:decodes],
                batch.seq_lens_tensor[:decodes],
                num_splits=self._splits(batch, query.device, layer.window),
                output=output[:decodes],
            )
        if decodes < len(batch.query_lens):
            self._attend_several((query, key, value), layer, batch, output)
        return output

    def _attend_several(
        self,
        heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        layer: AttentionLayer,
        batch: AttentionMetadata,
        output: torch.Tensor,
    ) -> None:
        """Attends for the requests of several tokens."""
        decodes = batch.num_decodes
        tables = batch.block_tables[decodes:]
        lengths = batch.seq_lens_tensor[decodes:]
        if self._fetches and reads_new_tokens(*heads, layer):
            new_tokens_attention(
                *heads,
                layer,
                tables,
                query_starts=self._starts,
                seq_lens=lengths,
                max_query_len=self._longest,
                has_cached=self._has_cached,
                output=output,
            )
            return
        prefill_attention(
            heads[0],
            layer,
            tables,
            query_starts=self._starts,
            seq_lens=lengths,
            max_query_len=self._longest,
            output=output,
        )

    def _begin(self, batch: AttentionMetadata, device: torch.device) -> None:
        """Finds the first row of each request of several tokens, once a step."""
        self._batch = batch
        decodes = batch.num_decodes
        lengths = batch.query_lens[decodes:]
        if lengths:
            starts = list(itertools.accumulate(lengths, initial=decodes))
            self._starts = torch.tensor(starts, dtype=torch.int32, device=device)
            self._longest = max(lengths)
            self._has_cached = lengths != batch.seq_lens[decodes:]
            self._fetches = fetches_tiles(device)

    def _splits(
        self, batch: AttentionMetadata, device: torch.device, window: int | None
    ) -> int:
        return choose_splits(
            device,
            num_seqs=batch.num_decodes,
            num_kv_heads=self._num_kv_heads,
            max_seq_len=max(batch.seq_lens[: batch.num_decodes]),
            window=window,
        )
