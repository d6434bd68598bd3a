"""Attention over a step's own keys equals its torch reference."""

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels import reference_attention
from hookline_kernels.gpu import attention
from hookline_kernels.gpu.attention import TritonAttention
from hookline_kernels.gpu.new_tokens import new_tokens_attention
from hookline_testing.attention_steps import Step, make_step
from hookline_testing.essential import essential

BATCHES = (
    [(40, 40)],
    [(1, 7), (140, 140), (65, 65)],
    [(64, 128), (33, 53)],
    [(1, 90), (2, 2), (70, 133)],
)


def packed_step(
    shape: tuple[int, int, int, int, int],
    batch: list[tuple[int, int]],
    dtype: torch.dtype,
    seed: int,
) -> Step:
    """Heads follow one another, as in the product that computes them."""
    step = make_step(shape, batch, dtype, seed)
    key, value = step.key.contiguous(), step.value.contiguous()
    return replace(step, key=key, value=value)


def attend(step: Step, shape: tuple[int, int, int, int, int]) -> torch.Tensor:
    group, kv_heads, key_dim, value_dim, block = shape
    attention_of = TritonAttention(
        num_heads=group * kv_heads,
        num_kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        block_size=block,
        dtype=step.query.dtype,
    )
    return attention_of(
        step.query, step.key, step.value, step.layer(0.1), step.metadata
    )


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether requests had cached tokens, of each call of the kernel."""
    calls: list[bool] = []

    def spy(*arguments: Any, has_cached: bool, **options: Any) -> None:
        calls.append(has_cached)
        new_tokens_attention(*arguments, has_cached=has_cached, **options)

    monkeypatch.setattr(attention, "new_tokens_attention", spy)
    return calls


@pytest.mark.parametrize(
    "batch", essential(BATCHES, BATCHES[0], BATCHES[2], slow=BATCHES), ids=str
)
@pytest.mark.parametrize("group", essential([1, 2, 4], 2))
def test_equals_reference(
    batch: list[tuple[int, int]], group: int, device: torch.device, seen: list[bool]
) -> None:
    """For prompts with and without cached tokens, within and across tiles."""
    shape = (group, 2, 64, 64, 16)
    step = packed_step(shape, batch, torch.bfloat16, group)
    exact = step.exact()
    wanted = reference_attention(
        exact.query, exact.key, exact.value, exact.layer(0.1), exact.metadata
    )

    found = attend(step.to(device), shape)

    assert seen == [any(new < length for new, length in batch if new > 1)]
    error = (found.cpu().double() - wanted).abs().max()
    assert error < 1e-2 * (1 + wanted.abs().max())


@pytest.mark.filterwarnings("ignore:invalid value")
def test_spares_requests_the_not_a_numbers_of_others(
    device: torch.device, seen: list[bool]
) -> None:
    """Tiles of one request's keys reach into the next request's."""
    shape = (2, 2, 64, 64, 16)
    # the interpreter finds none among bfloat16
    step = packed_step(shape, [(40, 40), (30, 30)], torch.float16, 3)
    whole = attend(step.to(device), shape)
    broken = replace(step, key=step.key.clone(), value=step.value.clone())
    broken.key[40:], broken.value[40:] = float("nan"), float("nan")

    found = attend(broken.to(device), shape)

    assert seen == [False, False]
    assert torch.equal(found[:40], whole[:40])
    assert found[40:].isnan().all()
