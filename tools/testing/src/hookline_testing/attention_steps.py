"""Attention inputs with random tensors."""

from dataclasses import dataclass, fields, replace

import torch

from hookline_kernels import AttentionLayer
from hookline_kernels.attention import write_slots
from hookline_kernels.layout import new_keys, new_values
from hookline_kernels.metadata import AttentionMetadata

Shape = tuple[int, int, int, int, int]
"""Query heads that share a KV head, KV heads, key dim, value dim, block size."""


@dataclass(frozen=True)
class Step:
    """A step's attention inputs and its KV cache."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    metadata: AttentionMetadata

    def layer(
        self, scale: float, window: int | None = None, softcap: float | None = None
    ) -> AttentionLayer:
        """The cache as a layer that scores like this."""
        return AttentionLayer(self.keys, self.values, scale, window, softcap)

    def exact(self) -> "Step":
        """Returns a copy in float64 on the CPU, with NaN replaced."""
        sides = {
            field.name: getattr(self, field.name).cpu().double().nan_to_num()
            for field in fields(self)
            if field.name != "metadata"
        }
        return Step(**sides, metadata=_moved(self.metadata, torch.device("cpu")))

    def to(self, device: torch.device) -> "Step":
        """Returns a copy on a device."""
        sides = {
            field.name: getattr(self, field.name).to(device)
            for field in fields(self)
            if field.name != "metadata"
        }
        return Step(**sides, metadata=_moved(self.metadata, device))


def _moved(metadata: AttentionMetadata, device: torch.device) -> AttentionMetadata:
    return replace(
        metadata,
        slot_mapping=metadata.slot_mapping.to(device),
        block_tables=metadata.block_tables.to(device),
        seq_lens_tensor=metadata.seq_lens_tensor.to(device),
    )


def _fill_with_nan(side: torch.Tensor) -> None:
    """Makes every number of a cache, and every scale, not-a-number."""
    if side.dtype.itemsize > 1:
        side.fill_(torch.nan)
        return
    memory = side.view(torch.uint8)
    memory.as_strided((len(side), side.stride(0)), (side.stride(0), 1)).fill_(0xFF)


def make_step(
    shape: Shape,
    lengths: list[tuple[int, int]],
    dtype: torch.dtype,
    seed: int,
    *,
    rows: bool = False,
    cache_dtype: torch.dtype | None = None,
) -> Step:
    """Creates a step from (new tokens, all tokens) per sequence; unused slots hold NaN.

    The cache has the memory layout `layout`, or plain rows. Its dtype is that of the
    queries or one of 8 bits.
    """
    group, kv_heads, key_dim, value_dim, block = shape
    generator = torch.Generator().manual_seed(seed)
    counts = [-(-length // block) for _, length in lengths]
    order = torch.randperm(sum(counts) + 2, generator=generator)
    tables = torch.zeros(len(lengths), max(counts), dtype=torch.int64)
    keys = new_keys(len(order), block, kv_heads, key_dim, cache_dtype or dtype)
    values = new_values(len(order), block, kv_heads, value_dim, cache_dtype or dtype)
    _fill_with_nan(keys)
    _fill_with_nan(values)
    slots, used = [], 0
    for row, ((new, length), count) in enumerate(zip(lengths, counts, strict=True)):
        tables[row, :count] = order[used : used + count]
        used += count
        at = torch.arange(length)
        pages, offsets = tables[row, at // block], at % block
        old = length - new
        for side, dim in ((keys, key_dim), (values, value_dim)):
            numbers = torch.randn(old, kv_heads, dim, generator=generator).to(dtype)
            write_slots(side, numbers, (pages * block + offsets)[:old])
        slots.append((pages * block + offsets)[old:])
    total = sum(new for new, _ in lengths)

    def randn(heads: int, dim: int) -> torch.Tensor:
        """Returns tensors as models pass them: heads outermost in memory."""
        numbers = torch.randn(heads, total, dim, generator=generator)
        return numbers.to(dtype).transpose(0, 1)

    return Step(
        randn(group * kv_heads, key_dim),
        randn(kv_heads, key_dim),
        randn(kv_heads, value_dim),
        keys.contiguous() if rows else keys,
        values.contiguous() if rows else values,
        AttentionMetadata(
            slot_mapping=torch.cat(slots),
            block_tables=tables,
            query_lens=[new for new, _ in lengths],
            seq_lens=[length for _, length in lengths],
            num_decodes=sum(new == 1 for new, _ in lengths),
            seq_lens_tensor=torch.tensor([length for _, length in lengths]),
        ),
    )
