"""Paged attention equals plain attention over each whole sequence."""

import random
from dataclasses import dataclass

import pytest
import torch

from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    paged_attention,
    write_cache,
)

TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


@dataclass(frozen=True)
class Case:
    """A batch: length of each request, and how much of it is new."""

    seed: int
    block_size: int
    kv_heads: int
    group: int
    key_dim: int
    value_dim: int
    window: int | None
    softcap: float | None


def random_case(seed: int) -> Case:
    source = random.Random(seed)  # noqa: S311 - a test
    return Case(
        seed=seed,
        block_size=source.choice([1, 2, 4, 16]),
        kv_heads=source.choice([1, 2, 3]),
        group=source.choice([1, 2, 4]),
        key_dim=(dim := source.choice([4, 8, 24])),
        value_dim=source.choice([dim, dim, 16]),
        window=source.choice([None, None, 1, 3, 7, 100]),
        softcap=source.choice([None, None, 1.5, 30.0]),
    )


def dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, case: Case
) -> torch.Tensor:
    """Attention of a request's last queries by the formula, in float64."""
    query, key, value = query.double(), key.double(), value.double()
    output = torch.zeros(len(query), query.shape[1], value.shape[2]).double()
    first = len(key) - len(query)
    for at in range(len(query)):
        start = 0 if case.window is None else max(0, first + at + 1 - case.window)
        for head in range(query.shape[1]):
            shared = head // case.group
            scores = key[start : first + at + 1, shared] @ query[at, head] * 0.3
            if case.softcap is not None:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            seen = value[start : first + at + 1, shared]
            output[at, head] = scores.softmax(0) @ seen
    return output


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("seed", range(40))
def test_paged_equals_dense(seed: int, dtype: torch.dtype) -> None:
    """For random batches of decodes and prefills, windows, soft caps and groups."""
    case = random_case(seed)
    source = random.Random(seed + 1000)  # noqa: S311 - a test
    generator = torch.Generator().manual_seed(seed)
    singles = [(1, source.randint(1, 40)) for _ in range(source.randint(0, 4))]
    longer = [(n, n + source.choice([0, 5, 17])) for n in (2, 9, 23)[: seed % 4]]
    batch = [*singles, *longer] or [(1, 1)]

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    blocks = [-(-length // case.block_size) for _, length in batch]
    free = list(range(sum(blocks) + 3))
    source.shuffle(free)
    tables = torch.zeros(len(batch), max(blocks), dtype=torch.int64)
    keys = randn(len(free), case.block_size, case.kv_heads, case.key_dim)
    values = randn(len(free), case.block_size, case.kv_heads, case.value_dim)
    queries, new_keys, new_values, slots, expected = [], [], [], [], []
    for index, (count, length) in enumerate(batch):
        own = [free.pop() for _ in range(blocks[index])]
        tables[index, : len(own)] = torch.tensor(own)
        at = [own[p // case.block_size] * case.block_size for p in range(length)]
        slot = torch.tensor([b + p % case.block_size for p, b in enumerate(at)])
        key = randn(length, case.kv_heads, case.key_dim)
        value = randn(length, case.kv_heads, case.value_dim)
        query = randn(count, case.kv_heads * case.group, case.key_dim)
        old = length - count
        keys.flatten(0, 1)[slot[:old]] = key[:old]
        values.flatten(0, 1)[slot[:old]] = value[:old]
        queries.append(query)
        new_keys.append(key[old:])
        new_values.append(value[old:])
        slots.append(slot[old:])
        expected.append(dense(query, key, value, case))
    metadata = AttentionMetadata(
        slot_mapping=torch.cat(slots),
        block_tables=tables,
        query_lens=[count for count, _ in batch],
        seq_lens=[length for _, length in batch],
        num_decodes=sum(count == 1 for count, _ in batch),
        seq_lens_tensor=torch.tensor([length for _, length in batch]),
    )

    write_cache(keys, torch.cat(new_keys), metadata)
    write_cache(values, torch.cat(new_values), metadata)
    found = paged_attention(
        torch.cat(queries),
        AttentionLayer(keys, values, 0.3, case.window, case.softcap),
        metadata,
    )

    assert found.dtype == dtype
    wanted = torch.cat(expected)
    assert found.shape == wanted.shape
    assert (found.double() - wanted).abs().max() < TOLERANCES[dtype] * (
        1 + wanted.abs().max()
    )


def test_writing_touches_only_its_slots() -> None:
    """All other slots of the cache stay unchanged."""
    cache = torch.arange(4 * 2 * 1 * 3, dtype=torch.float32).reshape(4, 2, 1, 3)
    before = cache.clone()
    metadata = AttentionMetadata(
        slot_mapping=torch.tensor([5, 0]),
        block_tables=torch.zeros(2, 1, dtype=torch.int64),
        query_lens=[1, 1],
        seq_lens=[1, 1],
        num_decodes=2,
        seq_lens_tensor=torch.tensor([1, 1]),
    )

    write_cache(cache, -torch.ones(2, 1, 3), metadata)

    changed = (cache != before).any(-1).flatten().nonzero()[:, 0]
    assert changed.tolist() == [0, 5]
    assert bool((cache.flatten(0, 1)[[0, 5]] == -1).all())
