"""Rejection sampling on the GPU keeps the target's distribution."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from hookline_kernels.gpu.rejection import reject
from hookline_kernels.rejection import reject_reference
from hookline_testing.essential import essential


def distributions(rows: int, vocab_size: int, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab_size, generator=source).mul_(2).softmax(-1)


def points(count: int, seed: int) -> torch.Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=source, dtype=torch.float64)


@pytest.mark.parametrize("certain", [False, True])
@pytest.mark.parametrize("vocab_size", [5, 100, 5000])
def test_equals_reference(vocab_size: int, certain: bool, device: torch.device) -> None:
    """With and without drafts, close to their targets and far from them."""
    counts = [0, 3, 1, 5, 0, 2] * 4
    starts = torch.tensor([0, *counts]).cumsum(0)
    total = sum(counts)
    targets = distributions(total + len(counts), vocab_size, 1)
    rows = torch.arange(total) + torch.repeat_interleave(
        torch.arange(len(counts)), torch.tensor(counts)
    )
    drafts = 0.4 * targets[rows] + 0.6 * distributions(total, vocab_size, 2)
    tokens = (targets[rows] if certain else drafts).argmax(-1)
    inputs = (
        tokens,
        starts,
        None if certain else drafts,
        targets,
    )
    uniforms = {
        "accept_points": points(total, 3),
        "next_points": points(len(counts), 4),
    }

    found = reject(
        *(None if one is None else one.to(device) for one in inputs),  # type: ignore[arg-type]
        **{name: one.to(device) for name, one in uniforms.items()},
    )

    accepted, following = reject_reference(*inputs, **uniforms)
    assert found.num_accepted.tolist() == accepted.tolist()
    assert (found.next_tokens.cpu() == following).double().mean() > 0.9
    assert 0 < int(accepted.sum()) < total


@pytest.mark.parametrize("certain", essential([False, True], False, slow=[True]))
def test_what_is_kept_is_distributed_as_the_target(
    certain: bool, device: torch.device
) -> None:
    """For any draft distribution, counted over many draws."""
    count, vocab_size = 300, 4
    target = torch.tensor([0.5, 0.3, 0.2, 0.0])
    draft = torch.tensor([0.1, 0.2, 0.3, 0.4])
    source = torch.Generator().manual_seed(5)
    tokens = torch.multinomial(draft, count, replacement=True, generator=source)
    if certain:
        tokens = torch.full((count,), 1)

    found = reject(
        tokens.to(device),
        torch.arange(count + 1).to(device),
        None if certain else draft.expand(count, -1).to(device),
        target.expand(2 * count, -1).to(device),
        accept_points=points(count, 6).to(device),
        next_points=points(count, 7).to(device),
    )

    accepted = found.num_accepted.cpu() > 0
    first = torch.where(accepted, tokens, found.next_tokens.cpu())
    shares = first.bincount(minlength=vocab_size) / count
    assert shares[3] == 0
    assert (shares - target).abs().max() < 0.09


def test_ends_of_probability_are_certain(device: torch.device) -> None:
    """Impossible tokens are rejected, and certain ones accepted."""
    sure = torch.tensor([[0.0, 1.0, 0.0]])

    found = reject(
        torch.tensor([1, 0, 1]).to(device),
        torch.tensor([0, 1, 3]).to(device),
        None,
        sure.expand(5, -1).to(device),
        accept_points=torch.tensor([1 - 2.0**-53, 0.0, 0.0], dtype=torch.float64).to(
            device
        ),
        next_points=torch.tensor([0.5, 0.5], dtype=torch.float64).to(device),
    )

    assert found.num_accepted.tolist() == [1, 0]
    assert found.next_tokens.tolist() == [1, 1]


def test_refused_though_both_are_the_same_draws_from_the_target(
    device: torch.device,
) -> None:
    """If rounding rejects without any excess, the whole target is used."""
    half = torch.tensor([[0.5, 0.5]], device=device)
    lifted = torch.tensor([[0.6, 0.6]], device=device)

    found = reject(
        torch.tensor([0], device=device),
        torch.tensor([0, 1], device=device),
        lifted,
        half.expand(2, -1),
        accept_points=torch.tensor([0.9], dtype=torch.float64, device=device),
        next_points=torch.tensor([0.75], dtype=torch.float64, device=device),
    )

    assert found.num_accepted.tolist() == [0]
    assert found.next_tokens.tolist() == [1]
