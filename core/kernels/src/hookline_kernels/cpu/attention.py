"""Paged attention on this machine's processors by the compiled kernels."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from hookline_kernels.cpu.decode import decode_body
from hookline_kernels.cpu.decode_call import CALL, SIGNATURE, UNBOUNDED, DecodeShape
from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.pages import CacheWriter
from hookline_kernels.cpu.prefill import attend_sequence
from hookline_kernels.cpu.prefill_kernel import PrefillShape, TiledPrefill
from hookline_kernels.cpu.recording import Int64, current, fresh
from hookline_kernels.cpu.shared_prefixes import SharedPrefixes
from hookline_kernels.cpu.team import Team
from hookline_kernels.failure import KernelError
from hookline_kernels.layout import cached_keys, cached_values
from hookline_kernels.metadata import TREE_BITS, PagedMetadata

DTYPES = (torch.float32, torch.bfloat16)
PARTS_A_THREAD = 4
"""Parts that a step is cut into, so that a thread that was held up delays no one."""
LEAST_PART_TOKENS = 64
LEAST_SHARED_NUMBERS = 1 << 16
"""Below so many numbers to read, one thread is done before others have woken."""

_OF_A_STEP = [
    CALL.fields[name][1] // 8  # type: ignore[index]
    for name in (
        *("block_tables", "table_bytes", "seq_lens", "num_seqs", "parts_done"),
        *("part_tokens", "scratch", "scratch_bytes", "states"),
        *("unseen", "num_unseen"),
    )
]
"""What all layers are told alike, and anew in each step; all of eight bytes."""


class CompiledAttention:
    """Writes a step's keys and values and attends; for layers of one shape.

    Its buffers grow to what the largest step needed. One thread calls it.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        block_size: int,
        dtype: torch.dtype,
        has_trees: bool = False,
    ) -> None:
        """Compiles what is not compiled yet; with trees, steps may have a `TreeMask`.

        Raises:
            KernelError: There is none for this shape or machine.
        """
        if dtype not in DTYPES:
            raise KernelError(f"there is no compiled attention for {dtype}")
        self._shape = DecodeShape(
            group=num_heads // num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            element_size=dtype.itemsize,
            has_trees=has_trees,
        )
        tiled, shared = _tiled(self._shape, num_kv_heads, dtype)
        self._tiled: TiledPrefill | None = tiled
        self._shared: SharedPrefixes | None = shared
        self._shared_tokens = 0
        self._num_kv_heads = num_kv_heads
        self._write = CacheWriter(
            num_kv_heads=num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            dtype=dtype,
        )
        self._team = Team(_kernel(self._shape).address)
        self._call = np.zeros(1, CALL)
        self._call["num_kv_heads"] = num_kv_heads
        self._again: dict[int | None, _Again] = {}
        self._again_several = _AgainSeveral(self)
        self._metadata: PagedMetadata | None = None
        self._scratch = torch.empty(0)
        self._states = torch.empty(0)
        self._parts_done = torch.zeros(0, dtype=torch.int64)

    @property
    def has_tiles(self) -> bool:
        """Whether several tokens of a sequence go by tiles, where nothing is capped."""
        return self._tiled is not None

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
        """As `reference_attention`, over a cache that `layout` made."""
        self._write(key, value, keys=keys, values=values, slots=metadata.slots)
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
        """The same for keys and values that are in the cache already."""
        self._begin(metadata)
        how = _How(scale, window, softcap)
        single, several = metadata.num_single, len(metadata.query_lens)
        output = fresh((*query.shape[:2], values.shape[-1]), query.dtype)
        if single:
            self._decode(
                query[:single], keys=keys, values=values, output=output, how=how
            )
        if single == several:
            return output
        if self._tiled is not None and softcap is None:
            self._tiled(
                query,
                keys=keys,
                values=values,
                output=output,
                scale=scale,
                window=window,
                again=self._again_several,
            )
            return output
        start = single
        for index in range(single, several):
            rows = slice(start, start + metadata.query_lens[index])
            output[rows] = _prefill(
                query[rows],
                key[rows],
                value[rows],
                keys=keys,
                values=values,
                metadata=metadata,
                how=how,
                index=index,
            )
            start = rows.stop
        return output

    def _begin(self, metadata: PagedMetadata) -> None:
        """Notes what all layers of a step share, once."""
        if metadata is self._metadata:
            return
        self._metadata = metadata
        if self._tiled is not None and metadata.num_single < len(metadata.query_lens):
            self._tiled.begin(metadata)
        count = metadata.num_single
        call = self._call[0]
        call["block_tables"] = metadata.block_tables.data_ptr()
        call["table_bytes"] = metadata.block_tables.stride(0) * 8
        call["seq_lens"] = metadata.seq_lens_tensor.data_ptr()
        call["num_seqs"] = self._num_singles = count
        call["unseen"] = call["num_unseen"] = 0
        if (trees := metadata.trees) is not None:
            assert self._shape.has_trees
            call["unseen"] = trees.unseen.data_ptr()
            call["num_unseen"] = trees.num_unseen.data_ptr()
        self._tokens = sum(metadata.seq_lens[:count])
        self._shared_tokens = 0
        if self._shared is not None and count > 1:
            self._shared_tokens = self._shared.begin(metadata)
        if len(self._parts_done) < count:
            self._parts_done = torch.zeros(count, dtype=torch.int64)
            call["parts_done"] = self._parts_done.data_ptr()

    def _decode(
        self,
        query: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        output: torch.Tensor,
        how: "_How",
    ) -> None:
        """One new token each of the first sequences."""
        if query.stride(2) != 1:
            query = query.contiguous()
        size = query.itemsize
        call = self._call[0]
        call["query"] = query.data_ptr()
        call["query_token_bytes"] = query.stride(0) * size
        call["query_head_bytes"] = query.stride(1) * size
        call["keys"] = keys.data_ptr()
        call["values"] = values.data_ptr()
        call["output"] = output.data_ptr()
        call["output_token_bytes"] = output.stride(0) * size
        call["window"] = UNBOUNDED if how.window is None else how.window
        call["scale"] = how.scale
        call["softcap"] = how.softcap or 0.0
        call["next_part"] = 0
        call["next_thread"] = 0
        tokens = self._seen(how.window)
        call["prefixes"] = 0
        recorder = current.recorder
        if self._shared_tokens and how.window is None and how.softcap is None:
            if recorder is not None:
                recorder.refuse()
            assert self._shared is not None
            self._shared(query, keys=keys, values=values, scale=how.scale)
            call["prefixes"] = self._shared.states.data_ptr()
            call["prefix_lens"] = self._shared.lens.ctypes.data
            tokens -= self._shared_tokens
        threads = self._share(tokens, len(query))
        if recorder is not None:
            again = self._again.setdefault(how.window, _Again(self, how.window))
            numbers = self._call.view(np.int64).copy()
            recorder.attend(self._team.function, numbers, again)
        self._team.run(self._call.ctypes.data, threads)

    def begin_again(
        self, calls: Int64, metadata: PagedMetadata, window: int | None
    ) -> int | None:
        """As `recording.Again` of single tokens, of layers that see so far back."""
        self._begin(metadata)
        if not metadata.num_single or self._shared_tokens:
            return None
        threads = self._share(self._seen(window), metadata.num_single)
        calls[:, _OF_A_STEP] = self._call.view(np.int64)[_OF_A_STEP]
        return threads

    def begin_several_again(self, calls: Int64, metadata: PagedMetadata) -> int | None:
        """As `recording.Again` for several tokens of a sequence, by tiles."""
        if metadata.num_single == len(metadata.query_lens):
            return None
        self._begin(metadata)
        assert self._tiled is not None
        return self._tiled.begin_again(calls)

    def _seen(self, window: int | None) -> int:
        """Tokens that the step's first sequences see, or a few more."""
        if window is None:
            return self._tokens
        seen = window + self._shape.block_size
        if self._shape.has_trees:
            seen += TREE_BITS
        return min(self._tokens, self._num_singles * seen)

    def _share(self, tokens: int, num_seqs: int) -> int:
        """Cuts the work into parts, makes room for them, and says for how many threads.

        Args:
            tokens: No fewer than all sequences' tokens that are seen.
            num_seqs: Sequences.
        """
        shape, call = self._shape, self._call[0]
        row = self._num_kv_heads * (shape.key_dim + shape.value_dim)
        all_threads = torch.get_num_threads()
        threads = 1 if tokens * row < LEAST_SHARED_NUMBERS else all_threads
        part = UNBOUNDED
        if threads > 1:
            part = max(LEAST_PART_TOKENS, tokens // (threads * PARTS_A_THREAD))
        part = -(-part // shape.block_size) * shape.block_size
        call["part_tokens"] = part
        # As much as any layer of the step can want: what one was told is not moved.
        scratch = -(-shape.scratch_floats(self._num_kv_heads) // 16) * 16
        if len(self._scratch) < all_threads * scratch:
            self._scratch = torch.empty(all_threads * scratch)
            call["scratch"] = self._scratch.data_ptr()
            call["scratch_bytes"] = scratch * 4
        parts = all_threads * PARTS_A_THREAD + 1 + num_seqs
        states = parts * shape.state_floats(self._num_kv_heads)
        if all_threads > 1 and len(self._states) < states:
            self._states = torch.empty(states)
            call["states"] = self._states.data_ptr()
        return threads


def _tiled(
    shape: DecodeShape, num_kv_heads: int, dtype: torch.dtype
) -> tuple[TiledPrefill, SharedPrefixes] | tuple[None, None]:
    """Nothing where prompts go by way of torch."""
    tiled = PrefillShape(
        group=shape.group,
        num_kv_heads=num_kv_heads,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        block_size=shape.block_size,
    )
    try:
        return TiledPrefill(tiled, dtype), SharedPrefixes(tiled, dtype)
    except KernelError:
        return None, None


class _Again(NamedTuple):
    """Decodes of the layers of one attention that see equally far back."""

    attention: CompiledAttention
    window: int | None

    def begin(self, calls: Int64, metadata: PagedMetadata) -> int | None:
        return self.attention.begin_again(calls, metadata, self.window)


class _AgainSeveral(NamedTuple):
    """Prompts, or parts of them, in the layers of one attention."""

    attention: CompiledAttention

    def begin(self, calls: Int64, metadata: PagedMetadata) -> int | None:
        return self.attention.begin_several_again(calls, metadata)


class _How(NamedTuple):
    """Of a layer: what the scores become, and how far back a token sees."""

    scale: float
    window: int | None
    softcap: float | None


def _prefill(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    metadata: PagedMetadata,
    how: _How,
    index: int,
) -> torch.Tensor:
    """The new tokens of one sequence of the batch."""
    cached = metadata.seq_lens[index] - metadata.query_lens[index]
    first = 0 if how.window is None else max(0, cached + 1 - how.window)
    blocks = metadata.block_tables[index]
    return attend_sequence(
        query,
        key,
        value,
        cached_keys(keys, blocks, first, cached),
        cached_values(values, blocks, first, cached),
        scale=how.scale,
        window=how.window,
        softcap=how.softcap,
    )


@cache
def _kernel(shape: DecodeShape) -> Any:
    """Compiled once a process, and kept: others hold its address."""
    variant = "-".join(
        f"{name}{getattr(shape, name)}"
        for name in ("group", "key_dim", "value_dim", "block_size", "element_size")
    )
    variant += "-trees" * shape.has_trees
    return compile_kernel(decode_body(shape), SIGNATURE, variant)
