"""Rotary embedding and cache write, between the QKV product and attention.

One pass over each token: RMSNorm of each head, where a model has it (Henry et al.
2020), rotary position embedding of queries and keys (Su et al. 2021), and the copy of
keys and values into their pages.

Prompts are the fastest, as their tokens share pages; decodes wait for cache misses of
their pages, which are prefetched. The slowest path is the model's own rotary embedding
followed by `pages`, for layers that this kernel does not fit.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.cache_formats import FORMATS, bytes_of, page_size
from hookline_kernels.cpu.cache_writing import store_key, store_value
from hookline_kernels.cpu.elements import (
    SCALARS,
    array_at,
    exact,
    float_bits,
    to_float,
)
from hookline_kernels.cpu.heads import prefetch_bytes, rotate_head
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import int_at, take
from hookline_kernels.cpu.norm import norm_row
from hookline_kernels.cpu.vectors import lanes_for
from hookline_kernels.failure import KernelError
from hookline_kernels.head_shape import HeadNorms, HeadShape

_TOKENS = 16
"""Tokens that a thread processes per pass."""
_AHEAD = 4
"""Tokens whose pages are prefetched before they are written: a key touches all of one,
and the pages of decodes are in no cache.
"""


class RotaryCache:
    """Normalizes, rotates and caches the heads of one layer; for one thread at a time.

    A rotated number is rounded once, where models in bfloat16 round three times.
    """

    def __init__(self, shape: HeadShape, norms: HeadNorms | None = None) -> None:
        """Compiles the kernel if it is not compiled yet.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        cache_dtype = shape.cache_dtype or shape.dtype
        if shape.dtype not in SCALARS or cache_dtype not in FORMATS:
            raise KernelError(
                f"no compiled rotary embedding for {shape.dtype}, cached as "
                f"{cache_dtype}"
            )
        self._shape = shape
        self._norms = norms  # the kernel holds their addresses
        self._kernel = _kernel(shape, norms is not None)
        self._numbers = numbers_of(*[0] * 11)
        if norms is not None:
            self._numbers[9] = norms.query.data_ptr()
            self._numbers[10] = norms.key.data_ptr()
            self._numbers[11] = float_bits(norms.epsilon)

    def bind(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Sets the layer's cache, from `layout.new_keys` and `layout.new_values`."""
        self._cache = (keys, values)
        self._numbers[7], self._numbers[8] = keys.data_ptr(), values.data_ptr()

    def __call__(
        self,
        heads: torch.Tensor,
        *,
        rotary: tuple[torch.Tensor, torch.Tensor],
        positions: torch.Tensor,
        slots: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotates queries and keys in place, and writes keys and values to the cache.

        Args:
            heads: [T, `HeadShape.width`], contiguous: queries, keys, values.
            rotary: Cosines and sines, [positions, dim ÷ 2] float32 each.
            positions: [T] int64, each below the table's length.
            slots: [T] int64; block × block size + offset of each token.

        Returns:
            Queries [T, heads, dim], and keys and values [T, KV heads, dim], in `heads`.
        """
        shape, numbers, tokens = self._shape, self._numbers, len(heads)
        numbers[1], numbers[2] = tokens, heads.data_ptr()
        numbers[3], numbers[4] = rotary[0].data_ptr(), rotary[1].data_ptr()
        numbers[5], numbers[6] = positions.data_ptr(), slots.data_ptr()
        self._kernel(heads.numel(), numbers)
        each = heads.view(tokens, -1, shape.dim)
        sizes = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
        query, key, value = each.split_with_sizes(sizes, 1)
        return query, key, value


def _page_prefetcher(
    kv_heads: int, block_size: int, page_bytes: int, head_bytes: int
) -> Any:
    @exact
    def prefetch_pages(given: Any, first: Any, last: Any) -> None:
        """Prefetches the pages of tokens that do not share the page before."""
        for token in range(first, last):
            slot = int_at(given[6], token)
            block = slot // block_size
            if token > 0 and int_at(given[6], token - 1) // block_size == block:
                continue
            for head in range(kv_heads):
                page = (block * kv_heads + head) * page_bytes
                prefetch_bytes(given[7] + page, page_bytes)
                prefetch_bytes(
                    given[8] + page + slot % block_size * head_bytes, head_bytes
                )

    return prefetch_pages


@functools.cache
def _kernel(shape: HeadShape, has_norms: bool) -> Kernel:
    size = shape.dtype.itemsize
    dim, half, block_size = shape.dim, shape.dim // 2, shape.block_size
    lanes = lanes_for(dim)
    heads, kv_heads, width = shape.num_heads, shape.num_kv_heads, shape.width
    form = FORMATS[shape.cache_dtype or shape.dtype]
    page_bytes, head_bytes = page_size(dim, block_size, form), dim * bytes_of(form)
    prefetch_pages = _page_prefetcher(kv_heads, block_size, page_bytes, head_bytes)

    def place_tokens(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        tokens = given[1]
        first = take(numbers, _TOKENS)
        while first < tokens:
            last = min(first + _TOKENS, tokens)
            prefetch_pages(given, first, min(first + _AHEAD, last))
            for token in range(first, last):
                prefetch_pages(given, token + _AHEAD, min(token + _AHEAD + 1, last))
                row = given[2] + token * width * size
                angle = int_at(given[5], token) * half * 4
                for head in range(heads + kv_heads):
                    at = row + head * dim * size
                    if has_norms:
                        weights = given[9] if head < heads else given[10]
                        epsilon = to_float(given[11])
                        norm_row(
                            at, weights, at, epsilon, dim, lanes, size, False, False
                        )
                    rotate_head(at, given[3] + angle, given[4] + angle, half, size)
                slot = int_at(given[6], token)
                block, place = slot // block_size, slot % block_size
                for head in range(kv_heads):
                    key = row + (heads + head) * dim * size
                    value = key + kv_heads * dim * size
                    at = (block * kv_heads + head) * page_bytes
                    keys, values = given[7] + at, given[8] + at
                    store_key(key, keys, place, dim, block_size, size, form)
                    store_value(value, values, place, dim, block_size, size, form)
            first = take(numbers, _TOKENS)

    variant = (
        f"rotary-cache-{heads}-{kv_heads}-{dim}-{block_size}-{str(shape.dtype)[6:]}"
    )
    if form != FORMATS[shape.dtype]:
        variant += f"-{str(shape.cache_dtype)[6:].replace('_', '-')}"
    return Kernel(place_tokens, f"{variant}-normed" if has_norms else variant)
