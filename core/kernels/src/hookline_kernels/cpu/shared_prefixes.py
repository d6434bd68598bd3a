"""What sequences of a decode step have in common is attended to once.

Their queries are rows of one matrix product with keys that are read once (Juravsky et
al. 2024, Hydragen; Ye et al. 2024, cascade inference), which leaves each of them a
state of its softmax; decode goes on from that with what is their own. By their blocks
sequences are known to begin alike: it is the prefix cache that finds them.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from hookline_kernels.cpu.amx import DEPTH
from hookline_kernels.cpu.launching import numbers_of
from hookline_kernels.cpu.prefill_kernel import (
    ITEM_NUMBERS,
    PrefillShape,
    check_tiles,
    note_layer,
    note_step,
    scratch_for,
    tiled_kernel,
)
from hookline_kernels.metadata import PagedMetadata

Int64 = np.ndarray[Any, np.dtype[np.int64]]

_WORTH_SHARING = 1024
"""Tokens that need not be read again, for one call more to pay."""


class Shared(NamedTuple):
    """Adjacent sequences, `number` from `first` on, whose first `tokens` are equal."""

    first: int
    number: int
    tokens: int


class SharedPrefixes:
    """Finds them once a step, and attends for each layer; one thread calls it.

    Attributes:
        lens: [S] int64, of each single-token sequence the tokens that it shares;
            multiples of 32 and of a block.
        states: [S, state] float32: of the last call, of sequences that share any.
    """

    lens: Int64
    states: torch.Tensor

    def __init__(self, shape: PrefillShape, dtype: torch.dtype) -> None:
        """Compiles what is not compiled yet.

        Raises:
            KernelError: There is no matrix unit, or none for this shape.
        """
        check_tiles(shape, dtype)
        self._shape = shape
        self._kernel = tiled_kernel(shape, leaves_states=True)
        self._numbers = numbers_of(*[0] * 14)
        self._tokens = 0
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self.states = torch.empty(0, 0)

    def begin(self, metadata: PagedMetadata) -> int:
        """Notes what all layers of a step share; how many tokens are in `lens`."""
        count, shape = metadata.num_single, self._shape
        self.lens = np.zeros(count, np.int64)
        lengths = np.array(metadata.seq_lens[:count], np.int64)
        if (trees := metadata.trees) is not None:  # what all of its nodes see
            lengths = trees.contexts.numpy()
        tables = metadata.block_tables[:count].numpy()
        groups = shared_runs(tables, lengths, shape.block_size)
        items = []
        for each in groups:
            end = each.first + each.number
            self.lens[each.first : end] = each.tokens
            for row in range(each.first, end, shape.tokens):
                rows = min(shape.tokens, end - row)
                # behind all of it, so that each sees all
                items.append((each.first, row, rows, each.tokens, each.tokens))
        if not items:
            return 0
        self._items = np.array(items, np.int64).reshape(-1, ITEM_NUMBERS)
        self._scratch = scratch_for(shape, self._scratch)
        heads = shape.num_kv_heads * shape.group
        if len(self.states) < count:
            self.states = torch.empty(count, heads * (2 + shape.value_dim))
        note_step(self._numbers, self._items, metadata.block_tables, self._scratch)
        self._tokens = int(self.lens.sum())
        return self._tokens

    def __call__(
        self,
        query: torch.Tensor,
        *,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
    ) -> None:
        """Fills `states`.

        Args:
            query: [S, heads, key dim], numbers of a head side by side.
            keys: Of `layout.new_keys`.
            values: Of `layout.new_values`.
            scale: Multiplies the scores.
        """
        note_layer(self._numbers, query, (keys, values), self.states, scale=scale)
        self._kernel(self._tokens * query.shape[1], self._numbers)


def shared_runs(tables: Int64, seq_lens: Int64, block_size: int) -> list[Shared]:
    """Runs of adjacent sequences that begin with the same blocks, where that pays.

    Args:
        tables: [S, most blocks of any]; what is behind a sequence's own is not read.
        seq_lens: [S] tokens, the newest included, which none shares.
        block_size: Tokens a block.
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
    """Of what each shares with the next; twice or half as much begins another run."""
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
