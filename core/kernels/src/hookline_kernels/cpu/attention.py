"""Paged attention on CPUs by compiled kernels."""

from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cache_numbers import EIGHT_BITS
from hookline_kernels.cpu.cache_formats import FORMATS
from hookline_kernels.cpu.decode import decode_body
from hookline_kernels.cpu.decode_call import CALL, SIGNATURE, UNBOUNDED, DecodeShape
from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.pages import CacheWriter
from hookline_kernels.cpu.prefill import attend_sequence
from hookline_kernels.cpu.prefill_call import PrefillShape, fastest_form
from hookline_kernels.cpu.recording import Int64, current, fresh
from hookline_kernels.cpu.shared_prefixes import SharedPrefixes
from hookline_kernels.cpu.team import thread_team
from hookline_kernels.cpu.tiled_prefill import TiledPrefill
from hookline_kernels.failure import KernelError
from hookline_kernels.layout import cached_tokens
from hookline_kernels.metadata import TREE_BITS, AttentionMetadata

DTYPES = (torch.float32, torch.bfloat16)
PARTS_A_THREAD = 4
"""Parts per thread, so that a delayed thread delays no other."""
LEAST_PART_TOKENS = 64
LEAST_SHARED_NUMBERS = 1 << 16
"""Numbers to read below which one thread finishes before others wake up."""

_OF_A_STEP = [
    CALL.fields[name][1] // 8  # type: ignore[index]
    for name in (
        *("block_tables", "table_bytes", "seq_lens", "num_seqs", "parts_done"),
        *("part_tokens", "scratch", "scratch_bytes", "states"),
        *("unseen", "num_unseen"),
    )
]
"""Arguments that all layers of a step share; eight bytes each."""


class CompiledAttention:
    """Writes a step's keys and values and attends, for layers of one shape.

    Its buffers grow with the largest step. For one thread.
    """

    _batch: AttentionMetadata | None = None
    _shared_tokens = 0

    def __init__(
        self,
        *,
        num_heads: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        block_size: int,
        dtype: torch.dtype,
        cache_dtype: torch.dtype | None = None,
        has_trees: bool = False,
    ) -> None:
        """Compiles the kernels; with trees, steps may carry a `TreeMask`.

        The cache has the dtype of the queries, or one of `EIGHT_BITS`.

        Raises:
            KernelError: No kernel supports this shape or machine.
        """
        cache_dtype = _cache_dtype(dtype, cache_dtype)
        self._shape = DecodeShape(
            group=num_heads // num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            element_size=dtype.itemsize,
            cache_format=FORMATS[cache_dtype],
            has_trees=has_trees,
        )
        self._tiled, self._shared = _tiled(self._shape, num_kv_heads, dtype)
        self._write = CacheWriter(
            num_kv_heads=num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            dtype=dtype,
            cache_dtype=cache_dtype,
        )
        self._kernel, self._num_kv_heads = _kernel(self._shape), num_kv_heads
        self._begin_empty()

    def _begin_empty(self) -> None:
        """Begins with buffers for nothing, and without recordings."""
        self._team, self._call = thread_team(), _new_call(self._num_kv_heads)
        self._decode_replays: dict[int | None, _DecodeReplay] = {}
        self._prefill_replay = _PrefillReplay(self)
        self._scratch, self._states = torch.empty(0), torch.empty(0)
        self._parts_done = torch.zeros(0, dtype=torch.int64)

    @cached_property
    def _address(self) -> int:
        """Read at the first call: the kernel may still be being compiled."""
        address: int = self._kernel.address
        return address

    @property
    def has_tiles(self) -> bool:
        """Whether tiles attend for requests with several tokens, but for soft caps."""
        return self._tiled is not None

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: AttentionLayer,
        batch: AttentionMetadata,
    ) -> torch.Tensor:
        """Like `reference_attention`, over a cache that `layout` made."""
        self._write(
            key, value, keys=layer.keys, values=layer.values, slots=batch.slot_mapping
        )
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
        self._begin(batch)
        decodes, requests = batch.num_decodes, len(batch.query_lens)
        output = fresh((*query.shape[:2], layer.values.shape[-1]), query.dtype)
        if decodes:
            self._decode(query[:decodes], layer, output)
        if decodes == requests:
            return output
        if self._tiled is not None and layer.softcap is None:
            self._tiled(query, layer, output, self._prefill_replay)
            return output
        start = decodes
        for index in range(decodes, requests):
            rows = slice(start, start + batch.query_lens[index])
            output[rows] = _prefill(
                query[rows], key[rows], value[rows], layer, batch, index
            )
            start = rows.stop
        return output

    def _begin(self, batch: AttentionMetadata) -> None:
        """Sets up what all layers of a step share, once a step."""
        if batch is self._batch:
            return
        self._batch = batch
        if self._tiled is not None and batch.num_decodes < len(batch.query_lens):
            self._tiled.prepare_step(batch)
        count = batch.num_decodes
        call = self._call[0]
        call["block_tables"] = batch.block_tables.data_ptr()
        call["table_bytes"] = batch.block_tables.stride(0) * 8
        call["seq_lens"] = batch.seq_lens_tensor.data_ptr()
        call["num_seqs"] = self._num_singles = count
        call["unseen"] = call["num_unseen"] = 0
        if (trees := batch.trees) is not None:
            assert self._shape.has_trees
            call["unseen"] = trees.unseen.data_ptr()
            call["num_unseen"] = trees.num_unseen.data_ptr()
        self._tokens = sum(batch.seq_lens[:count])
        self._shared_tokens = 0
        if self._shared is not None and count > 1:
            self._shared_tokens = self._shared.prepare_step(batch)
        if len(self._parts_done) < count:
            self._parts_done = torch.zeros(count, dtype=torch.int64)
            call["parts_done"] = self._parts_done.data_ptr()

    def _decode(
        self, query: torch.Tensor, layer: AttentionLayer, output: torch.Tensor
    ) -> None:
        """Computes the first requests, which have one new token each."""
        window = layer.window
        if query.stride(2) != 1:
            query = query.contiguous()
        size = query.itemsize
        call = self._call[0]
        call["query"] = query.data_ptr()
        call["query_token_bytes"] = query.stride(0) * size
        call["query_head_bytes"] = query.stride(1) * size
        call["keys"] = layer.keys.data_ptr()
        call["values"] = layer.values.data_ptr()
        call["output"] = output.data_ptr()
        call["output_token_bytes"] = output.stride(0) * size
        call["window"] = UNBOUNDED if window is None else window
        call["scale"] = layer.scale
        call["softcap"] = layer.softcap or 0.0
        call["sinks"] = _address(layer.sinks)
        call["slopes"] = _address(layer.slopes)
        call["next_part"] = 0
        call["next_thread"] = 0
        tokens = self._seen(window)
        call["prefixes"] = 0
        recorder = current.recorder
        if self._shared_tokens and window is None and _is_shareable(layer):
            if recorder is not None:
                recorder.refuse()
            assert self._shared is not None
            self._shared(query, layer)
            call["prefixes"] = self._shared.states.data_ptr()
            call["prefix_lens"] = self._shared.lens.ctypes.data
            tokens -= self._shared_tokens
        threads = self._share(tokens, len(query))
        if recorder is not None:
            replay = self._decode_replays.setdefault(
                window, _DecodeReplay(self, window)
            )
            numbers = self._call.view(np.int64).copy()
            recorder.attend(self._address, numbers, replay)
        self._team.run_one(self._address, self._call.ctypes.data, threads)

    def prepare_decode_replay(
        self, calls: Int64, batch: AttentionMetadata, window: int | None
    ) -> int | None:
        """`ReplayedAttention.prepare` of decodes in layers with this window."""
        self._begin(batch)
        if not batch.num_decodes or self._shared_tokens:
            return None
        threads = self._share(self._seen(window), batch.num_decodes)
        calls[:, _OF_A_STEP] = self._call.view(np.int64)[_OF_A_STEP]
        return threads

    def prepare_prefill_replay(
        self, calls: Int64, batch: AttentionMetadata
    ) -> int | None:
        """`ReplayedAttention.prepare` of requests with several tokens, by tiles."""
        if batch.num_decodes == len(batch.query_lens):
            return None
        self._begin(batch)
        assert self._tiled is not None
        return self._tiled.prepare_replay(calls)

    def _seen(self, window: int | None) -> int:
        """Upper bound of the tokens that the step's decodes attend to."""
        if window is None:
            return self._tokens
        seen = window + self._shape.block_size
        if self._shape.has_trees:
            seen += TREE_BITS
        return min(self._tokens, self._num_singles * seen)

    def _share(self, tokens: int, num_seqs: int) -> int:
        """Cuts the work into parts and allocates buffers; returns the threads to use.

        Args:
            tokens: Upper bound of the tokens that are attended to.
            num_seqs: Number of requests.
        """
        shape, call = self._shape, self._call[0]
        row = self._num_kv_heads * (shape.key_dim + shape.value_dim)
        team = self._team
        threads = 1 if tokens * row < LEAST_SHARED_NUMBERS else team.threads
        part = UNBOUNDED
        if threads > 1:
            part = max(LEAST_PART_TOKENS, tokens // (threads * PARTS_A_THREAD))
        part = -(-part // shape.block_size) * shape.block_size
        call["part_tokens"] = part
        # Enough for all layers of the step: recorded addresses must not change.
        scratch = -(-shape.scratch_floats(self._num_kv_heads) // 16) * 16
        if len(self._scratch) < team.max_threads * scratch:
            self._scratch = torch.empty(team.max_threads * scratch)
            call["scratch"] = self._scratch.data_ptr()
            call["scratch_bytes"] = scratch * 4
        parts = team.max_threads * PARTS_A_THREAD + 1 + num_seqs
        states = parts * shape.state_floats(self._num_kv_heads)
        if len(self._states) < states:
            self._states = torch.empty(states)
            call["states"] = self._states.data_ptr()
        return threads


def _is_shareable(layer: AttentionLayer) -> bool:
    """Whether a prefix's state is the same for all queries: sinks come at the end."""
    return layer.softcap is None and layer.slopes is None


def _address(numbers: torch.Tensor | None) -> int:
    """The address of float32 numbers, one a head; 0 for None."""
    return 0 if numbers is None else numbers.data_ptr()


def _new_call(num_kv_heads: int) -> np.ndarray[Any, Any]:
    """Returns the arguments of the decode kernel."""
    call = np.zeros(1, CALL)
    call["num_kv_heads"] = num_kv_heads
    return call


def _tiled(
    shape: DecodeShape, num_kv_heads: int, dtype: torch.dtype
) -> tuple[TiledPrefill | None, SharedPrefixes | None]:
    """Returns None where prefill uses torch's attention."""
    tiled = PrefillShape(
        form=fastest_form(dtype),
        size=dtype.itemsize,
        group=shape.group,
        num_kv_heads=num_kv_heads,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        block_size=shape.block_size,
        cache_format=shape.cache_format,
    )
    try:
        return TiledPrefill(tiled), SharedPrefixes(tiled)
    except KernelError:
        return None, None


class _DecodeReplay(NamedTuple):
    """Decodes in layers with the same window."""

    attention: CompiledAttention
    window: int | None

    def prepare(self, calls: Int64, batch: AttentionMetadata) -> int | None:
        return self.attention.prepare_decode_replay(calls, batch, self.window)


class _PrefillReplay(NamedTuple):
    """Requests with several tokens."""

    attention: CompiledAttention

    def prepare(self, calls: Int64, batch: AttentionMetadata) -> int | None:
        return self.attention.prepare_prefill_replay(calls, batch)


def _prefill(  # noqa: PLR0917 - one request's part of a call of attention
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: AttentionLayer,
    batch: AttentionMetadata,
    index: int,
) -> torch.Tensor:
    """The new tokens of one request of the batch."""
    cached, window = batch.seq_lens[index] - batch.query_lens[index], layer.window
    first = 0 if window is None else max(0, cached + 1 - window)
    sides, found = (layer.keys, layer.values), []
    for new, side in zip((key, value), sides, strict=True):
        is_rounded = side.dtype in EIGHT_BITS  # then new tokens are read, too
        last = batch.seq_lens[index] if is_rounded else cached
        blocks = batch.block_tables[index]
        old = cached_tokens(side, blocks, first, last, new.dtype)
        if is_rounded:
            count = old.shape[1] - len(new)
            found.append((old[:, count:].transpose(0, 1), old[:, :count]))
        else:
            found.append((new, old))
    (key, cached_key), (value, cached_value) = found
    return attend_sequence(query, key, value, cached_key, cached_value, layer)


@cache
def _kernel(shape: DecodeShape) -> Any:
    """Compiles a kernel once a process, and keeps it: its address is in use."""
    variant = "-".join(
        f"{name}{getattr(shape, name)}"
        for name in ("group", "key_dim", "value_dim", "block_size", "element_size")
    )
    variant += f"-cache{shape.cache_format}" + "-trees" * shape.has_trees
    return compile_kernel(decode_body(shape), SIGNATURE, variant)


def _cache_dtype(dtype: torch.dtype, own: torch.dtype | None) -> torch.dtype:
    """Returns the dtype of the cache; raises `KernelError` if there are no kernels."""
    if dtype not in DTYPES:
        raise KernelError(f"no compiled attention for {dtype}")
    return own or dtype
