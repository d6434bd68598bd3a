"""Compiled attention equals its torch reference."""

import random
from itertools import cycle, product

import pytest
import torch

from hookline_kernels import choose_attention, reference_attention
from hookline_testing.attention_steps import Step, make_step
from hookline_testing.essential import essential

TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 1e-2}
SHAPES = (
    # group, KV heads, key dim, value dim, block size
    (1, 2, 64, 64, 16),
    (2, 1, 80, 80, 16),
    (3, 4, 64, 64, 16),
    (4, 2, 96, 96, 4),
    (8, 1, 128, 128, 32),
    (5, 2, 256, 256, 16),
    (1, 3, 64, 64, 1),
    (19, 1, 24, 40, 16),
    (2, 2, 20, 20, 24),
)


def assert_equal_to_reference(
    shape: tuple[int, int, int, int, int],
    step: Step,
    *,
    window: int | None = None,
    softcap: float | None = None,
) -> None:
    group, kv_heads, key_dim, value_dim, block = shape
    dtype = step.query.dtype
    chosen = choose_attention(
        num_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        block_size=block,
        dtype=dtype,
    )
    exact = step.exact()
    wanted = reference_attention(
        exact.query,
        exact.key,
        exact.value,
        exact.layer(0.3, window, softcap),
        exact.metadata,
    )

    layer = step.layer(0.3, window, softcap)

    assert (chosen.name, chosen.reason) == ("compiled", "")
    for _ in range(2):
        found = chosen.attend(step.query, step.key, step.value, layer, step.metadata)
        assert found.dtype == dtype
        assert found.shape == wanted.shape
        error = (found.double() - wanted).abs().max()
        assert error < TOLERANCES[dtype] * (1 + wanted.abs().max())


@pytest.mark.parametrize(
    ("shape", "dtype"),
    # Each case compiles kernels, so essential ones have one dtype. The first shape has
    # nothing that no other has.
    essential(product(SHAPES, TOLERANCES), *tuple(zip(SHAPES, cycle(TOLERANCES)))[1:]),
    ids=str,
)
def test_equals_reference(
    shape: tuple[int, int, int, int, int], dtype: torch.dtype
) -> None:
    """For random batches of decodes, chunks and whole prompts."""
    for seed in range(5):
        source = random.Random(seed)  # noqa: S311 - a test
        singles = [(1, source.randint(1, 70)) for _ in range(source.randint(0, 6))]
        several = [(n, n + source.choice([0, 5, 33])) for n in (2, 9, 40)[: seed % 4]]
        batch = [*singles, *several] or [(1, 1)]
        window = source.choice([None, None, 1, 3, 17, 300])
        softcap = source.choice([None, None, 1.5, 30.0])
        step = make_step(shape, batch, dtype, seed)
        assert_equal_to_reference(shape, step, window=window, softcap=softcap)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("window", [None, 130, 700])
@pytest.mark.parametrize("length", [1023, 1024, 1500])
def test_a_long_sequence_is_cut_into_parts_and_merged(
    length: int, window: int | None, dtype: torch.dtype
) -> None:
    """Alone in its step, or much longer than the others."""
    shape = SHAPES[2]
    for lengths in ([length], [3, length, 40]):
        batch = [(1, one) for one in lengths]
        step = make_step(shape, batch, dtype, length)
        assert_equal_to_reference(shape, step, window=window)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    """The current number of threads is used, not that of the compilation."""
    before = torch.get_num_threads()
    step = make_step(SHAPES[2], [(1, 300)] * 9 + [(1, 2000)], torch.float32, 0)

    torch.set_num_threads(threads)
    try:
        assert_equal_to_reference(SHAPES[2], step)
    finally:
        torch.set_num_threads(before)


def test_unsupported_dtypes_use_the_reference_and_log_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A dtype without kernels gets the reference, a reason and a warning."""
    chosen = choose_attention(
        num_heads=2,
        num_kv_heads=1,
        key_dim=8,
        value_dim=8,
        block_size=16,
        dtype=torch.float16,
    )

    assert chosen.attend is reference_attention
    assert chosen.name == "torch"
    assert "float16" in chosen.reason
    assert chosen.reason in caplog.text
