"""Compiled rejection sampling equals its torch reference."""

import pytest
import torch

pytest.importorskip("numba", reason="numba is not installed")

from hookline_kernels.cpu.rejection import reject
from hookline_kernels.rejection import reject_reference


def distributions(rows: int, vocab_size: int, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab_size, generator=source).mul_(2).softmax(-1)


def points(count: int, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("certain", [False, True])
@pytest.mark.parametrize("vocab_size", [5, 511, 512, 5000])
def test_equals_reference(vocab_size: int, certain: bool) -> None:
    """With and without drafts, close to their targets and far from them."""
    counts = [0, 3, 1, 5, 0, 2] * 6
    starts = torch.tensor([0, *counts]).cumsum(0)
    total = sum(counts)
    targets = distributions(total + len(counts), vocab_size, 1)
    rows = torch.arange(total) + torch.repeat_interleave(
        torch.arange(len(counts)), torch.tensor(counts)
    )
    drafts = 0.4 * targets[rows] + 0.6 * distributions(total, vocab_size, 2)
    tokens = (targets[rows] if certain else drafts).argmax(-1)
    inputs = (tokens, starts, None if certain else drafts, targets)
    accept, following = points(total, 3), points(len(counts), 4)

    found = reject(*inputs, accept_points=accept, next_points=following)

    wanted = reject_reference(*inputs, accept_points=accept, next_points=following)
    assert found.num_accepted.tolist() == wanted.num_accepted.tolist()
    # A point that lies between two tokens may be summed up to either.
    same = (found.next_tokens == wanted.next_tokens).double().mean()
    assert same > 0.9
    assert 0 < int(wanted.num_accepted.sum()) < total


def test_ends_of_probability_are_certain() -> None:
    """Impossible tokens are rejected, and certain ones accepted."""
    sure = torch.tensor([[0.0, 1.0, 0.0]])

    found = reject(
        torch.tensor([1, 0, 1]),
        torch.tensor([0, 1, 3]),
        None,
        sure.expand(5, -1),
        accept_points=torch.tensor([1 - 2.0**-53, 0.0, 0.0], dtype=torch.float64),
        next_points=torch.tensor([0.5, 0.5], dtype=torch.float64),
    )

    assert found.num_accepted.tolist() == [1, 0]
    assert found.next_tokens.tolist() == [1, 1]


def test_refused_though_both_are_the_same_draws_from_the_target() -> None:
    """If rounding rejects without any excess, the whole target is used."""
    found = reject(
        torch.tensor([0]),
        torch.tensor([0, 1]),
        torch.tensor([[0.6, 0.6]]),
        torch.tensor([[0.5, 0.5]]).expand(2, -1),
        accept_points=torch.tensor([0.9], dtype=torch.float64),
        next_points=torch.tensor([0.75], dtype=torch.float64),
    )

    assert found.num_accepted.tolist() == [0]
    assert found.next_tokens.tolist() == [1]


def test_refused_draft_is_never_drawn_again() -> None:
    """For any point, a certain draft that was rejected is not drawn."""
    count, vocab_size = 1000, 1500
    target = distributions(1, vocab_size, 7).expand(2 * count, -1)

    found = reject(
        torch.full((count,), 700),
        torch.arange(count + 1),
        None,
        target,
        accept_points=torch.ones(count, dtype=torch.float64),
        next_points=torch.linspace(0, 1 - 2**-40, count, dtype=torch.float64),
    )

    assert not found.num_accepted.any()
    assert not (found.next_tokens == 700).any()
