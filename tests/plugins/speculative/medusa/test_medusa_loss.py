"""The loss that heads learn from, against that of torch."""

import pytest
import torch
from torch.nn import functional

from hookline_medusa.loss import cross_entropy


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("count", [1, 256, 700])
def test_loss_and_gradients_are_those_of_torch(count: int, *, biased: bool) -> None:
    """Whatever is computed at a time; the bfloat16 products leave a hundredth."""
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(count, 32, generator=generator, requires_grad=True)
    output = torch.randn(96, 32, generator=generator, requires_grad=True)
    bias = torch.randn(96, generator=generator) if biased else None
    wanted = torch.randint(96, (count,), generator=generator)

    found = cross_entropy(states, output, bias, wanted)
    gradients = torch.autograd.grad(3 * found, [states, output])

    right = functional.cross_entropy(functional.linear(states, output, bias), wanted)
    wanted_gradients = torch.autograd.grad(3 * right, [states, output])
    assert found.item() == pytest.approx(right.item(), rel=0.01)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        assert (one - other).norm() < 0.02 * other.norm()
