"""Attends once to the prefix that requests of a decode step share.

The requests' queries are rows of one matrix product with the shared keys, which are
read once (Juravsky et al. 2024, Hydragen; Ye et al. 2024, cascade inference). Each
request gets a softmax state, from which decode continues with the request's own tokens.
Equal block ids identify a shared prefix, as the prefix cache shares blocks.

The paths are those of `prefill_kernel`; layers with a window, a soft cap or slopes, and
steps with less than `_WORTH_SHARING` shared tokens, take the slower one: decode alone.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from hookline_kernels.attention_layer import AttentionLayer
from hookline_kernels.cpu.amx import DEPTH
from hookline_kernels.cpu.launching import numbers_of
from hookline_kernels.cpu.prefill_call import (
    ITEM_NUMBERS,
    PrefillShape,
    check_shape,
    scratch_for,
    set_layer_arguments,
    set_step_arguments,
)
from hookline_kernels.cpu.prefill_kernel import tiled_kernel
from hookline_kernels.metadata import AttentionMetadata

Int64 = np.ndarray[Any, np.dtype[np.int64]]

_WORTH_SHARING = 1024
"""Least number of tokens saved for which the extra call pays."""


class Shared(NamedTuple):
    """`number` adjacent requests from `first` on, whose first `tokens` are equal."""

    first: int
    number: int
    tokens: int


class SharedPrefixes:
    """Finds shared prefixes once a step, and attends to them in each layer.

    For one thread.

    Attributes:
        lens: [S] int64, number of shared tokens of each decode, a multiple of 32 and of
            the block size.
        states: [S, state] float32 of the last call; rows without shared tokens are
            undefined.
    """

    lens: Int64
    states: torch.Tensor

    def __init__(self, shape: PrefillShape) -> None:
        """Compiles the kernel if it is not compiled yet.

        Raises:
            KernelError: There is no kernel for this shape.
        """
        check_shape(shape)
        self._shape = shape
        self._kernel = tiled_kernel(shape)
        self._numbers = numbers_of(*[0] * 14, 1, 0, 0)
        self._tokens = 0
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self.states = torch.empty(0, 0)

    def prepare_step(self, batch: AttentionMetadata) -> int:
        """Sets up what all layers of a step share; returns the sum of `lens`."""
        count, shape = batch.num_decodes, self._shape
        self.lens = np.zeros(count, np.int64)
        lengths = np.array(batch.seq_lens[:count], np.int64)
        if (trees := batch.trees) is not None:  # all nodes attend to these
            lengths = trees.contexts.numpy()
        tables = batch.block_tables[:count].numpy()
        groups = shared_runs(tables, lengths, shape.block_size)
        items = []
        for each in groups:
            end = each.first + each.number
            self.lens[each.first : end] = each.tokens
            for row in range(each.first, end, shape.tokens):
                rows = min(shape.tokens, end - row)
                # a position behind all of it attends to all
                items.append((each.first, row, rows, each.tokens, each.tokens))
        if not items:
            return 0
        self._items = np.array(items, np.int64).reshape(-1, ITEM_NUMBERS)
        self._scratch = scratch_for(shape, self._scratch)
        heads = shape.num_kv_heads * shape.group
        if len(self.states) < count:
            self.states = torch.empty(count, heads * (2 + shape.value_dim))
        set_step_arguments(
            self._numbers, self._items, batch.block_tables, self._scratch
        )
        self._tokens = int(self.lens.sum())
        return self._tokens

    def __call__(self, query: torch.Tensor, layer: AttentionLayer) -> None:
        """Fills `states`.

        Args:
            query: [S, heads, key dim], each head contiguous.
            layer: One without a window and without a soft cap.
        """
        set_layer_arguments(self._numbers, query, layer, self.states)
        self._kernel(self._tokens * query.shape[1], self._numbers)


def shared_runs(tables: Int64, seq_lens: Int64, block_size: int) -> list[Shared]:
    """Returns runs of adjacent requests that share leading blocks, where that pays.

    Args:
        tables: [S, blocks of the longest request]; entries behind a request's own
            blocks are ignored.
        seq_lens: [S] tokens, the newest included, which is never shared.
        block_size: Tokens in a block.
    """
    if len(tables) < 2:
        return []
    own = (seq_lens - 1) // block_size
    same = tables[1:] == tables[:-1]
    common = np.where(same.all(1), tables.shape[1], same.argmin(1))
    common = np.minimum(common, np.minimum(own[1:], own[:-1])) * block_size
    step = math.lcm(DEPTH, block_size)
    return [
        run
        for run in _runs((common // step * step).tolist())
        if (run.number - 1) * run.tokens >= _WORTH_SHARING
    ]


def _runs(common: list[int]) -> Iterable[Shared]:
    """Cuts the tokens that each request shares with the next where they double."""
    first, tokens = 0, 0
    for index, count in enumerate(common):
        if 2 * count < tokens:
            yield Shared(first, index + 1 - first, tokens)
            first, tokens = index + 1, 0
        elif count > 2 * tokens:
            yield Shared(first, index - first, tokens)
            first, tokens = index, count
        else:
            tokens = min(tokens, count)
    yield Shared(first, len(common) + 1 - first, tokens)
