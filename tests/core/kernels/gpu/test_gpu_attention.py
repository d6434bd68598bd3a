"""Attention on the GPU equals its torch reference."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels import reference_attention
from hookline_kernels.failure import KernelError
from hookline_kernels.gpu.attention import TritonAttention
from hookline_kernels.gpu.decode import (
    LEAST_HALF_TOKENS,
    LEAST_SPLIT_TOKENS,
    MOST_SPLITS,
    choose_splits,
    decode_attention,
)
from hookline_testing.attention_steps import Shape, Step, make_step
from hookline_testing.essential import essential

TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
SHAPES: tuple[Shape, ...] = (
    # group, KV heads, key dim, value dim, block size
    (1, 2, 64, 64, 16),
    (2, 1, 80, 80, 16),
    (3, 2, 32, 32, 4),
    (4, 2, 128, 128, 32),
    (5, 1, 16, 48, 1),
    (8, 1, 24, 40, 16),
    (19, 1, 20, 20, 24),
)
SEED = 7


def attention_of(shape: Shape, dtype: torch.dtype) -> TritonAttention:
    group, kv_heads, key_dim, value_dim, block = shape
    return TritonAttention(
        num_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        block_size=block,
        dtype=dtype,
    )


def wanted_of(
    step: Step, window: int | None = None, softcap: float | None = None
) -> torch.Tensor:
    exact = step.exact()
    return reference_attention(
        exact.query,
        exact.key,
        exact.value,
        exact.layer(0.3, window, softcap),
        exact.metadata,
    )


def assert_close(found: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    assert found.shape == wanted.shape
    error = (found.cpu().double() - wanted).abs().max()
    assert error < TOLERANCES[dtype] * (1 + wanted.abs().max())


def assert_equal_to_reference(
    shape: Shape,
    step: Step,
    device: torch.device,
    *,
    window: int | None = None,
    softcap: float | None = None,
) -> None:
    wanted = wanted_of(step, window, softcap)
    there = step.to(device)

    found = attention_of(shape, step.query.dtype)(
        there.query,
        there.key,
        there.value,
        there.layer(0.3, window, softcap),
        there.metadata,
    )

    assert_close(found, wanted, step.query.dtype)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    essential(
        product(SHAPES, TOLERANCES),
        *product([SHAPES[1], SHAPES[2], SHAPES[4], SHAPES[6]], [torch.float32]),
        (SHAPES[2], torch.bfloat16),
        slow=[*product(SHAPES, [torch.float32]), *product(SHAPES[2:3], TOLERANCES)],
    ),
    ids=str,
)
def test_equals_reference(
    shape: Shape, dtype: torch.dtype, device: torch.device
) -> None:
    """For random batches of decodes, chunks and whole prompts, in both layouts."""
    for seed in range(3):
        source = random.Random(f"{shape} {dtype} {seed}")  # noqa: S311 - a test
        singles = [(1, source.randint(1, 70)) for _ in range(source.randint(0, 3))]
        several = [(n, n + source.choice([0, 5, 33])) for n in (2, 9, 40)[:seed]]
        batch = [*singles, *several] or [(1, 1)]
        window = source.choice([None, 1, 3, 17, 300])
        softcap = source.choice([None, None, 1.5, 30.0])
        step = make_step(shape, batch, dtype, seed, rows=seed % 2 == 0)
        assert_equal_to_reference(shape, step, device, window=window, softcap=softcap)


@pytest.mark.slow
@pytest.mark.parametrize("num_splits", essential([1, 3], 3))
@pytest.mark.parametrize("name", ["sinks", "slopes"])
def test_sinks_and_slopes(name: str, num_splits: int, device: torch.device) -> None:
    """In decodes, whole or in splits, and in prompts, with and without a window."""
    shape = (5, 1, 16, 24, 16)
    batch = [(1, 1), (1, 900), (7, 30), (40, 40)]
    step = make_step(shape, batch, torch.float32, SEED)
    numbers = torch.linspace(-3, 4, 5) if name == "sinks" else 0.5 ** torch.arange(5)
    sides: tuple[dict[str, Any], ...] = (
        {name: numbers.double()},
        {name: numbers.to(device)},
    )
    for window in (None, 20):
        exact = step.exact()
        wanted = reference_attention(
            exact.query,
            exact.key,
            exact.value,
            replace(exact.layer(0.3, window), **sides[0]),
            exact.metadata,
        )
        there = step.to(device)
        layer = replace(there.layer(0.3, window), **sides[1])

        found = attention_of(shape, torch.float32)(
            there.query, there.key, there.value, layer, there.metadata
        )
        decoded = decode_attention(
            there.query[:2],
            layer,
            there.metadata.block_tables[:2],
            there.metadata.seq_lens_tensor[:2],
            num_splits=num_splits,
        )

        assert_close(found, wanted, torch.float32)
        assert_close(decoded, wanted[:2], torch.float32)


@pytest.mark.parametrize(
    "length", essential([1, 15, 16, 17, 63, 64, 65], 16, slow=[1, 65])
)
def test_lengths_at_the_borders_of_blocks_and_tiles(
    length: int, device: torch.device
) -> None:
    """Decodes and prompts that end just before, at and behind a border are right."""
    batch = [(1, length), (length, length), (min(length, 16), length + 16)]
    batch.sort(key=lambda one: one[0] > 1)
    for window in (None, 16):
        step = make_step(SHAPES[0], batch, torch.float32, length)
        assert_equal_to_reference(SHAPES[0], step, device, window=window)


@pytest.mark.slow
@pytest.mark.parametrize("window", essential([None, 100, 300], 100))
def test_prompts_of_many_tiles(window: int | None, device: torch.device) -> None:
    """Tiles within, across and outside of the window are right."""
    shape = (2, 1, 16, 16, 16)
    step = make_step(shape, [(200, 333), (130, 130)], torch.float32, SEED)

    assert_equal_to_reference(shape, step, device, window=window)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("window", essential([None, 130, 700], 130))
@pytest.mark.parametrize("num_splits", essential([1, 2, 3, 8], 3))
def test_any_number_of_splits_gives_the_same(
    num_splits: int, window: int | None, dtype: torch.dtype, device: torch.device
) -> None:
    """Also if most splits of the shorter requests are empty."""
    shape = (3, 1, 32, 24, 16)
    lengths = [1, 1500, LEAST_SPLIT_TOKENS, LEAST_SPLIT_TOKENS + 1, 600]
    step = make_step(shape, [(1, length) for length in lengths], dtype, SEED)
    wanted = wanted_of(step, window)
    keys, values = step.keys, step.values
    places = step.metadata.slot_mapping // 16, step.metadata.slot_mapping % 16
    keys[places], values[places] = step.key, step.value
    there = step.to(device)

    found = decode_attention(
        there.query,
        there.layer(0.3, window),
        there.metadata.block_tables,
        there.metadata.seq_lens_tensor,
        num_splits=num_splits,
    )

    assert_close(found, wanted, dtype)


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_sequence_without_tokens_gives_zeros(
    num_splits: int, device: torch.device
) -> None:
    """So a batch can be padded to the size of a captured graph."""
    step = make_step(SHAPES[0], [(1, 20), (1, 30)], torch.float32, SEED).to(device)

    found = decode_attention(
        step.query,
        step.layer(1.0),
        step.metadata.block_tables,
        torch.zeros(2, dtype=torch.int64, device=device),
        num_splits=num_splits,
    )

    assert torch.equal(found, torch.zeros_like(found))


def test_splits_fit_the_device_and_the_sequences() -> None:
    """A busy device only halves long requests, and others have a power of two."""
    interpreter = torch.device("cpu")

    def splits(num_seqs: int, max_seq_len: int, window: int | None = None) -> int:
        return choose_splits(
            interpreter,
            num_seqs=num_seqs,
            num_kv_heads=1,
            max_seq_len=max_seq_len,
            window=window,
        )

    assert splits(1, LEAST_SPLIT_TOKENS) == 1
    assert splits(1, 1 << 20) == MOST_SPLITS
    assert splits(1, 1 << 20, LEAST_SPLIT_TOKENS) == 1
    assert splits(1000, 1 << 20) == 2
    assert splits(1000, LEAST_HALF_TOKENS) == 1
    assert splits(3, 1 << 20) == 8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": torch.float64}, "float64"),
        ({"key_dim": 2000}, "2000 numbers"),
        ({"num_kv_heads": 3}, "3 KV heads"),
    ],
    ids=str,
)
def test_unsupported_attention_is_refused(
    wrong: dict[str, object], message: str
) -> None:
    """The error has a reason, and the caller can fall back."""
    arguments: dict[str, object] = {
        "num_heads": 4,
        "num_kv_heads": 2,
        "key_dim": 16,
        "value_dim": 16,
        "block_size": 16,
        "dtype": torch.float32,
    }

    with pytest.raises(KernelError, match=message):
        TritonAttention(**{**arguments, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("window", essential([None, 7], 7, slow=[None]))
def test_a_broken_token_reaches_those_after_it(
    window: int | None, device: torch.device
) -> None:
    """Not those before it in its request, and no other request."""
    lengths = [(1, 20), (40, 45), (9, 9)]
    first, row = 1, 22
    step = make_step(SHAPES[0], lengths, torch.float32, SEED).to(device)
    attention, layer = attention_of(SHAPES[0], torch.float32), step.layer(0.3, window)
    clean = attention(step.query, step.key, step.value, layer, step.metadata)
    step.key[row] = step.value[row] = torch.nan

    found = attention(step.query, step.key, step.value, layer, step.metadata)

    behind = torch.arange(len(found), device=device) - row
    is_in = torch.arange(len(found), device=device) < first + 40
    is_spoilt = (behind >= 0) & is_in & (behind < (window or 40))
    assert bool(found[is_spoilt].isnan().any(-1).all())
    assert torch.equal(found[~is_spoilt], clean[~is_spoilt])
