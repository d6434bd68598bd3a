"""Attention of requests with several new tokens, as products of matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cpu.launching import numbers_of
from hookline_kernels.cpu.prefill_call import (
    ITEM_NUMBERS,
    STEP_ARGUMENTS,
    PrefillShape,
    check_shape,
    scratch_for,
    set_layer_arguments,
    set_step_arguments,
)
from hookline_kernels.cpu.prefill_kernel import tiled_kernel
from hookline_kernels.cpu.recording import Int64, ReplayedAttention
from hookline_kernels.metadata import AttentionMetadata


class TiledPrefill:
    """Attends for the requests with several new tokens; for one thread."""

    def __init__(self, shape: PrefillShape) -> None:
        """Compiles the kernel if it is not compiled yet.

        Raises:
            KernelError: There is no kernel for this shape.
        """
        check_shape(shape)
        self._shape = shape
        self._kernel = tiled_kernel(shape)
        self._numbers = numbers_of(*[0] * 17)
        self._items = np.zeros((0, ITEM_NUMBERS), np.int64)
        self._scores = 0
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def prepare_step(self, batch: AttentionMetadata) -> None:
        """Sets up what all layers of a step share."""
        single = batch.num_decodes
        self._items = _items(
            batch.query_lens[single:],
            batch.seq_lens[single:],
            first=single,
            most=self._shape.tokens,
        )
        pairs = int((self._items[:, 2] * (self._items[:, 3] + 1)).sum())
        self._scores = pairs * self._shape.num_kv_heads * self._shape.group
        self._scratch = scratch_for(self._shape, self._scratch)
        set_step_arguments(
            self._numbers, self._items, batch.block_tables, self._scratch
        )

    def __call__(
        self,
        query: torch.Tensor,
        layer: AttentionLayer,
        output: torch.Tensor,
        replay: ReplayedAttention | None = None,
    ) -> None:
        """Fills the output rows of the requests with several tokens.

        Args:
            query: [T, heads, key dim] of the whole batch.
            layer: One without a soft cap; the step's keys and values are written.
            output: [T, heads, value dim], contiguous.
            replay: Updates the call's arguments when a recorded step is replayed.
        """
        if query.stride(2) != 1:
            query = query.contiguous()
        set_layer_arguments(self._numbers, query, layer, output)
        self._kernel(self._scores, self._numbers, replay)

    def prepare_replay(self, calls: Int64) -> int:
        """Copies what `prepare_step` set into recorded calls; returns the threads."""
        calls[:, STEP_ARGUMENTS] = self._numbers[STEP_ARGUMENTS]
        return self._kernel.threads(self._scores)


def _items(
    query_lens: Sequence[int], seq_lens: Sequence[int], *, first: int, most: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns blocks of queries, [n, 5], as `tiled_kernel` takes them.

    The most expensive come first, so that no thread ends with a long one.
    """
    items, row = [], first
    for index, (count, length) in enumerate(zip(query_lens, seq_lens, strict=True)):
        for start in range(0, count, most):
            tokens = min(most, count - start)
            position = length - count + start
            last = position + tokens
            items.append((first + index, row + start, tokens, position, last))
        row += count
    items.sort(key=lambda item: -item[2] * item[3])
    return np.array(items, np.int64).reshape(-1, ITEM_NUMBERS)
