"""Attention over a cache of 8-bit numbers equals attention over what they stand for."""

import itertools
import random

import pytest
import torch

from hookline_kernels import (
    AttentionLayer,
    choose_attention,
    paged_attention,
    reference_attention,
)
from hookline_kernels.attention import write_slots
from hookline_kernels.cache_numbers import EIGHT_BITS, dequantized, quantized
from hookline_kernels.layout import (
    gathered,
    new_keys,
    new_values,
    page_bytes,
    scales_of,
)
from hookline_testing.attention_steps import Shape, Step, make_step

TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 1.5e-2}
ERRORS = {torch.int8: 0.008, torch.float8_e4m3fn: 0.03, torch.float8_e5m2: 0.06}
"""Norm of the error of normally distributed numbers, relative to theirs."""
SHAPES = (
    # group, KV heads, key dim, value dim, block size
    (3, 4, 64, 64, 16),
    (8, 1, 128, 128, 32),
    (2, 2, 20, 36, 24),
    (1, 3, 64, 64, 1),
)

USUAL = (torch.bfloat16, torch.int8)
PAIRS = [
    pytest.param(*pair, marks=() if pair == USUAL else pytest.mark.exhaustive)
    for pair in itertools.product(TOLERANCES, EIGHT_BITS)
]
"""Dtypes of queries and cache."""


def numbers_of(side: torch.Tensor) -> torch.Tensor:
    """What all slots of a cache stand for, in float64."""
    found = gathered(side, torch.arange(len(side)), torch.float32)
    return found.double().nan_to_num()


def assert_equals_reference(
    shape: Shape, step: Step, *, window: int | None = None, softcap: float | None = None
) -> None:
    group, kv_heads, key_dim, value_dim, block = shape
    dtype, layer = step.query.dtype, step.layer(0.3, window, softcap)
    chosen = choose_attention(
        num_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        block_size=block,
        dtype=dtype,
        cache_dtype=layer.keys.dtype,
    )
    assert (chosen.name, chosen.reason) == ("compiled", "")
    for attend in (chosen.attend, reference_attention):
        found = attend(step.query, step.key, step.value, layer, step.metadata)
        stored = AttentionLayer(
            numbers_of(layer.keys), numbers_of(layer.values), 0.3, window, softcap
        )
        wanted = paged_attention(step.query.double(), stored, step.metadata)

        assert found.dtype == dtype
        error = (found.double() - wanted).abs().max()
        assert error < TOLERANCES[dtype] * (1 + wanted.abs().max())


def _raw(side: torch.Tensor) -> torch.Tensor:
    """All bytes of a cache."""
    size = side.stride(0)
    return side.view(torch.uint8).as_strided((len(side), size), (size, 1))


@pytest.mark.parametrize(("dtype", "cache_dtype"), PAIRS, ids=str)
def test_attention_reads_what_was_written(
    dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    """Decodes, chunks, prompts, windows and soft caps of a usual shape are right."""
    for seed in range(4):
        source = random.Random(seed)  # noqa: S311 - a test
        singles = [(1, source.randint(1, 70)) for _ in range(source.randint(1, 6))]
        several = [(n, n + source.choice([0, 5, 133])) for n in (2, 40)[: seed % 3]]
        step = make_step(
            SHAPES[0], [*singles, *several], dtype, seed, cache_dtype=cache_dtype
        )
        window, softcap = ((None, None), (17, None), (None, 1.5), (3, 30.0))[seed]
        assert_equals_reference(SHAPES[0], step, window=window, softcap=softcap)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("cache_dtype", "dtype"),
    # Each case compiles kernels.
    list(zip(EIGHT_BITS, itertools.cycle(TOLERANCES), strict=False)),
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_all_shapes_read_what_was_written(
    shape: Shape, dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    """Widths that fill no vector, and blocks of any size, are right."""
    for seed, batch in enumerate([[(1, 1), (1, 33)], [(1, 1500)], [(7, 7), (40, 90)]]):
        step = make_step(shape, batch, dtype, seed, cache_dtype=cache_dtype)
        assert_equals_reference(shape, step)


@pytest.mark.parametrize(("dtype", "cache_dtype"), PAIRS, ids=str)
def test_writers_store_the_bits_of_the_reference(
    dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    """Tiny, huge and zero numbers included."""
    shape = SHAPES[0]
    step = make_step(shape, [(1, 9), (30, 30)], dtype, 3, cache_dtype=cache_dtype)
    magnitudes = 10.0 ** torch.linspace(-36, 9, len(step.key))[:, None, None]
    key, value = ((side * magnitudes).to(dtype) for side in (step.key, step.value))
    key[3], value[4] = 0.0, 0.0
    slots, layer = step.metadata.slot_mapping, step.layer(0.3)
    expected = []
    for side, numbers in ((layer.keys, key), (layer.values, value)):
        write_slots(side, numbers, slots)
        expected.append(_raw(side).clone())
        _raw(side).fill_(0xFF)
        write_slots(side, torch.zeros_like(numbers), slots)
    chosen = choose_attention(
        num_heads=12,
        num_kv_heads=4,
        key_dim=64,
        value_dim=64,
        block_size=16,
        dtype=dtype,
        cache_dtype=cache_dtype,
    )

    chosen.attend(step.query, key, value, layer, step.metadata)

    written = slots // 16, slots % 16
    for side, raw in zip((layer.keys, layer.values), expected, strict=True):
        found = side[written].view(torch.uint8)
        old = side.clone()
        _raw(side).copy_(raw)
        assert torch.equal(found, side[written].view(torch.uint8))
        assert old.dtype == cache_dtype


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
def test_the_error_is_bounded(dtype: torch.dtype) -> None:
    """Rounding to 8 bits loses less than a known share."""
    numbers = torch.randn(2000, 4, 64, generator=torch.Generator().manual_seed(1))

    found = dequantized(*quantized(numbers, dtype), torch.float32)

    error = (found - numbers).norm() / numbers.norm()
    assert ERRORS[dtype] / 3 < error < ERRORS[dtype]


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
def test_numbers_beyond_the_range_are_clamped(dtype: torch.dtype) -> None:
    """They become the largest number, not infinite; int8 has a range per token."""
    numbers = torch.tensor([[1e6, -1e6, 448.0, 0.0]])

    found = dequantized(*quantized(numbers, dtype), torch.float32)

    assert found.isfinite().all()
    assert found[0, 0] == -found[0, 1] >= 448


def test_a_page_ends_with_its_scales() -> None:
    """Keys and values of a block and head are one run of bytes."""
    for new in (new_keys, new_values):
        side = new(3, 16, 2, 64, torch.int8)
        scales = scales_of(side)

        assert scales is not None
        scales[2, 15, 1] = 1.0
        assert page_bytes(16, 64, torch.int8) == 16 * 66
        end = 3 * 2 * 16 * 66
        assert _raw(side).flatten().nonzero().flatten().tolist() == [end - 2, end - 1]
        assert scales_of(new(3, 16, 2, 64, torch.float8_e4m3fn)) is None
