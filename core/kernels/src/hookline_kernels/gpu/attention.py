"""Paged attention of a step on a GPU."""

import itertools

import torch

from hookline_kernels.failure import KernelError
from hookline_kernels.gpu.cache import write_cache
from hookline_kernels.gpu.decode import choose_splits, decode_attention
from hookline_kernels.gpu.prefill import prefill_attention
from hookline_kernels.metadata import PagedMetadata

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_ROW_BYTES = 1024
"""Of a head's key or value; wider ones do not fit on the chip."""


class TritonAttention:
    """Writes a step's keys and values and attends; for layers of one shape.

    What all layers of a step share is made once a step, for the metadata of its first
    layer. In a step that is captured in a CUDA graph, no length of the metadata may be
    below any that the graph is replayed with. One thread calls it.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        block_size: int,  # noqa: ARG002 - others' kernels are made for it
        dtype: torch.dtype,
    ) -> None:
        """Compiles nothing: that happens at the first call of each kind.

        Args:
            num_heads: Of the queries.
            num_kv_heads: Of the cache; divides `num_heads`.
            key_dim: Of a head's query and key.
            value_dim: Of a head's value.
            block_size: Tokens a block.
            dtype: Of all of them.

        Raises:
            KernelError: There is none for this shape.
        """
        if dtype not in DTYPES:
            raise KernelError(f"there is no Triton attention for {dtype}")
        if max(key_dim, value_dim) * dtype.itemsize > MOST_ROW_BYTES:
            raise KernelError(
                f"there is no Triton attention for heads of {max(key_dim, value_dim)} "
                f"numbers of {dtype}; at most {MOST_ROW_BYTES // dtype.itemsize} fit"
            )
        if num_heads % num_kv_heads:
            raise KernelError(f"{num_kv_heads} KV heads do not divide {num_heads}")
        self._num_kv_heads = num_kv_heads
        self._metadata: PagedMetadata | None = None
        self._starts = torch.empty(0)

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        metadata: PagedMetadata,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
    ) -> torch.Tensor:
        """As `reference_attention`; the caches may have any strides."""
        write_cache(key, value, keys, values, metadata.slots)
        return self.attend_written(
            query,
            key,
            value,
            keys=keys,
            values=values,
            metadata=metadata,
            scale=scale,
            window=window,
            softcap=softcap,
        )

    def attend_written(
        self,
        query: torch.Tensor,
        _key: torch.Tensor,
        _value: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        metadata: PagedMetadata,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
    ) -> torch.Tensor:
        """The same for keys and values that are in the cache already."""
        if metadata is not self._metadata:
            self._begin(metadata, query.device)
        output = query.new_empty(*query.shape[:2], values.shape[-1])
        single = metadata.num_single
        if single:
            decode_attention(
                query[:single],
                keys,
                values,
                metadata.block_tables[:single],
                metadata.seq_lens_tensor[:single],
                scale=scale,
                num_splits=self._splits(metadata, query.device, window),
                window=window,
                softcap=softcap,
                output=output[:single],
            )
        if single < len(metadata.query_lens):
            prefill_attention(
                query,
                keys,
                values,
                metadata.block_tables[single:],
                query_starts=self._starts,
                seq_lens=metadata.seq_lens_tensor[single:],
                max_query_len=max(metadata.query_lens[single:]),
                scale=scale,
                window=window,
                softcap=softcap,
                output=output,
            )
        return output

    def _begin(self, metadata: PagedMetadata, device: torch.device) -> None:
        """Notes where each request of several tokens begins in the batch."""
        self._metadata = metadata
        single = metadata.num_single
        lengths = metadata.query_lens[single:]
        if lengths:
            starts = list(itertools.accumulate(lengths, initial=single))
            self._starts = torch.tensor(starts, dtype=torch.int32, device=device)

    def _splits(
        self, metadata: PagedMetadata, device: torch.device, window: int | None
    ) -> int:
        return choose_splits(
            device,
            num_seqs=metadata.num_single,
            num_kv_heads=self._num_kv_heads,
            max_seq_len=max(metadata.seq_lens[: metadata.num_single]),
            window=window,
        )
