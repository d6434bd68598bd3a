"""Writes keys and values of new tokens into the pages of a layer's cache.

It is the slower of two paths: `rotary_cache` writes pages while it rotates keys. Heads
that are not contiguous are copied before, which is the slowest.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.cache_formats import FORMATS, page_size
from hookline_kernels.cpu.cache_writing import store_key, store_value
from hookline_kernels.cpu.elements import SCALARS, array_at
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import int_at, take
from hookline_kernels.failure import KernelError

_TOKENS = 16
"""Tokens that a thread processes per pass: often one block of a prompt."""


class CacheWriter:
    """Copies rows into pages; for one thread at a time."""

    def __init__(
        self,
        *,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        block_size: int,
        dtype: torch.dtype,
        cache_dtype: torch.dtype | None = None,
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        Rows are of `dtype`, and the cache, too, unless it has a dtype of its own.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        cache_dtype = cache_dtype or dtype
        if dtype not in SCALARS or cache_dtype not in FORMATS:
            raise KernelError(f"no compiled cache writer for {dtype} as {cache_dtype}")
        self._kernel = _kernel(key_dim, value_dim, block_size, dtype, cache_dtype)
        self._row = num_kv_heads * (key_dim + value_dim)
        self._numbers = numbers_of(0, num_kv_heads, *[0] * 9)

    def __call__(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        slots: torch.Tensor,
    ) -> None:
        """Writes all tokens of a step.

        Args:
            key: [T, KV heads, key dim].
            value: [T, KV heads, value dim].
            keys: [blocks, block size, KV heads, key dim], from `layout.new_keys`.
            values: Likewise, from `layout.new_values`.
            slots: [T] int64; block × block size + offset of each token.
        """
        key, value = _rows(key), _rows(value)
        numbers, size = self._numbers, key.itemsize
        numbers[1] = len(key)
        numbers[3], numbers[4] = key.data_ptr(), value.data_ptr()
        numbers[5], numbers[6] = key.stride(0) * size, key.stride(1) * size
        numbers[7], numbers[8] = value.stride(0) * size, value.stride(1) * size
        numbers[9], numbers[10] = keys.data_ptr(), values.data_ptr()
        numbers[11] = slots.data_ptr()
        self._kernel(len(key) * self._row, numbers)


def _rows(side: torch.Tensor) -> torch.Tensor:
    """Makes each head contiguous."""
    return side if side.stride(2) == 1 else side.contiguous()


@functools.cache
def _kernel(
    key_dim: int,
    value_dim: int,
    block_size: int,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
) -> Kernel:
    size, form = dtype.itemsize, FORMATS[cache_dtype]
    key_page = page_size(key_dim, block_size, form)
    value_page = page_size(value_dim, block_size, form)

    def write_pages(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        tokens, heads = given[1], given[2]
        first = take(numbers, _TOKENS)
        while first < tokens:
            for token in range(first, min(first + _TOKENS, tokens)):
                slot = int_at(given[11], token)
                block, place = slot // block_size, slot % block_size
                for head in range(heads):
                    page = block * heads + head
                    key = given[3] + token * given[5] + head * given[6]
                    to = given[9] + page * key_page
                    store_key(key, to, place, key_dim, block_size, size, form)
                    value = given[4] + token * given[7] + head * given[8]
                    to = given[10] + page * value_page
                    store_value(value, to, place, value_dim, block_size, size, form)
            first = take(numbers, _TOKENS)

    names = "-".join(str(each)[6:].replace("_", "-") for each in (dtype, cache_dtype))
    variant = f"write-pages-{key_dim}-{value_dim}-{block_size}-{names}"
    return Kernel(write_pages, variant)
