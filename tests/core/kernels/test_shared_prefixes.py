"""Shared prefixes are read once, and each request attends to the same tokens."""

import random

import numpy as np
import pytest
import torch

from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    choose_attention,
    new_keys,
    new_values,
)
from hookline_kernels.attention import attend_written
from hookline_kernels.cpu.prefill_call import PrefillShape, fastest_form
from hookline_kernels.cpu.shared_prefixes import Shared, SharedPrefixes, shared_runs

Group = tuple[int, list[int]]
"""Tokens in common, and all tokens of each sequence."""


def tables_of(groups: list[Group], block: int) -> tuple[torch.Tensor, list[int]]:
    """Block tables and lengths of requests that share leading blocks.

    Blocks are scattered; entries behind a request's own belong to others.
    """
    lengths = [length for _, each in groups for length in each]
    width = -(-max(lengths) // block)
    numbers = list(range(width * (len(lengths) + len(groups))))
    random.Random(1).shuffle(numbers)  # noqa: S311 - a test
    rows = []
    for tokens, each in groups:
        common = [numbers.pop() for _ in range(tokens // block)]
        for _ in each:
            own = [numbers.pop() for _ in range(width - len(common))]
            rows.append(common + own)
    return torch.tensor(rows), lengths


def difference(
    groups: list[Group],
    *,
    shape: tuple[int, int, int, int] = (3, 4, 64, 16),
    window: int | None = None,
    softcap: float | None = None,
) -> float:
    """Largest difference from float32; shape: group, KV heads, dim, block size."""
    group, kv_heads, dim, block = shape
    heads = group * kv_heads
    source = torch.Generator().manual_seed(3)

    def numbers(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=source).bfloat16()

    tables, lengths = tables_of(groups, block)
    blocks = int(tables.max()) + 1
    keys = new_keys(blocks, block, kv_heads, dim, torch.bfloat16)
    values = new_values(blocks, block, kv_heads, dim, torch.bfloat16)
    keys.copy_(numbers(*keys.shape))
    values.copy_(numbers(*values.shape))
    count = len(lengths)
    metadata = AttentionMetadata(
        slot_mapping=torch.zeros(0, dtype=torch.int64),
        block_tables=tables,
        query_lens=[1] * count,
        seq_lens=lengths,
        num_decodes=count,
        seq_lens_tensor=torch.tensor(lengths),
    )
    query = numbers(count, heads + 2, dim)[:, :heads]
    chosen = choose_attention(
        num_heads=heads,
        num_kv_heads=kv_heads,
        key_dim=dim,
        value_dim=dim,
        block_size=block,
        dtype=torch.bfloat16,
    )
    found, expected = (
        attend(
            each,
            query,
            query,
            AttentionLayer(
                keys.to(each.dtype), values.to(each.dtype), dim**-0.5, window, softcap
            ),
            metadata,
        )
        for attend, each in (
            (chosen.attend_written, query),
            (attend_written, query.float()),
        )
    )
    return float((found.float() - expected).abs().max())


@pytest.mark.parametrize(
    "groups",
    [
        [(1024, [1100, 1040, 1025, 1090])],
        [(512, [513, 600, 700]), (0, [5, 900]), (352, [360, 361, 800, 2000])],
        [(64, [100] * 40), (1040, [1050] * 3)],
    ],
    ids=["one", "several", "long and short"],
)
def test_shared_prefixes_change_no_result(groups: list[Group]) -> None:
    """Groups of any size among other requests, split into parts or not."""
    assert difference(groups) < 0.02


def test_more_requests_than_a_block_of_queries() -> None:
    """A block has 96 tokens of such groups."""
    assert difference([(1024, [1030] * 110)], shape=(8, 1, 96, 32)) < 0.02


OTHER_SHAPES = [
    pytest.param(shape, marks=() if shape == (2, 3, 64, 48) else pytest.mark.exhaustive)
    for shape in ((1, 2, 32, 16), (8, 1, 128, 32), (5, 2, 256, 16), (2, 3, 64, 48))
]
"""Heads in a group, KV heads, head dim and block size."""


@pytest.mark.parametrize("shape", OTHER_SHAPES, ids=str)
def test_other_heads_and_blocks(shape: tuple[int, int, int, int]) -> None:
    """A block need not divide a step of the products."""
    groups = [(768, [800, 900, 770, 1500]), (0, [40])]
    assert difference(groups, shape=shape) < 0.02


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 50, 1000])
def test_windows_and_soft_caps(window: int | None, softcap: float | None) -> None:
    """With either, nothing is shared."""
    groups = [(1024, [1100, 1040, 1025])]
    assert difference(groups, window=window, softcap=softcap) < 0.02


def test_what_is_shared_is_noted_for_each() -> None:
    """Only whole blocks count, and only where sharing pays."""
    shared = SharedPrefixes(
        PrefillShape(
            form=fastest_form(torch.bfloat16),
            size=2,
            group=1,
            num_kv_heads=4,
            key_dim=32,
            value_dim=32,
            block_size=16,
            cache_format=2,
        )
    )
    groups = [(1040, [1100, 1041]), (512, [513, 700]), (512, [600] * 3)]
    tables, lengths = tables_of(groups, 16)
    metadata = AttentionMetadata(
        slot_mapping=torch.zeros(0, dtype=torch.int64),
        block_tables=tables,
        query_lens=[1] * 7,
        seq_lens=lengths,
        num_decodes=7,
        seq_lens_tensor=torch.tensor(lengths),
    )

    assert shared.prepare_step(metadata) == 2 * 1024 + 3 * 512
    assert shared.lens.tolist() == [1024, 1024, 0, 0, 512, 512, 512]


def test_the_newest_token_is_its_own() -> None:
    """Even if block tables are equal to the end."""
    tables = np.zeros((3, 128), np.int64)

    assert shared_runs(tables, np.full(3, 2048), 16) == [Shared(0, 3, 2016)]
    assert shared_runs(tables[:1], np.full(1, 2048), 16) == []


def test_runs_are_true_and_apart() -> None:
    """For any tables, and any entries behind the requests' own blocks."""
    source = np.random.default_rng(4)
    found = 0
    for _ in range(300):
        count, width = int(source.integers(2, 12)), int(source.integers(1, 200))
        tables = source.integers(0, 2, (count, width))
        starts = source.integers(0, 3, count)
        for row in range(1, count):
            if starts[row]:
                shared = int(source.integers(0, width + 1))
                tables[row, :shared] = tables[row - 1, :shared]
        lengths = source.integers(1, width * 16 + 1, count)
        end = 0
        for run in shared_runs(tables, lengths, 16):
            rows = slice(run.first, run.first + run.number)
            assert run.first >= end
            assert run.tokens % 32 == 0
            assert (run.number - 1) * run.tokens >= 1024
            assert (lengths[rows] > run.tokens).all()
            assert (
                tables[rows, : run.tokens // 16]
                == tables[run.first, : run.tokens // 16]
            ).all()
            end = run.first + run.number
            found += 1
        assert end <= count
    assert found > 100
