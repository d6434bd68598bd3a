"""Cross-entropy behind an output layer, without all logits at a time."""

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

_AT_ONCE = 256
"""Positions whose logits exist at a time: few, so that caches may hold them."""


def cross_entropy(
    states: torch.Tensor,
    output: torch.Tensor,
    bias: torch.Tensor | None,
    wanted: torch.Tensor,
) -> torch.Tensor:
    """Mean cross-entropy of the tokens that are wanted behind states.

    Logits are computed in bfloat16, what follows in float32. They exist for a few
    positions at a time, and gradients are made at once, for they would be needed again.

    Args:
        states: [n, hidden size].
        output: [vocabulary, hidden size]; gets a gradient if it wants one.
        bias: [vocabulary], which gets no gradient; or None.
        wanted: [n] int64.

    Returns:
        Nats, a float32 scalar.
    """
    found = _CrossEntropy.apply(states.bfloat16(), output.bfloat16(), bias, wanted)  # type: ignore[no-untyped-call]
    assert isinstance(found, torch.Tensor)
    return found


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        states: torch.Tensor,
        output: torch.Tensor,
        bias: torch.Tensor | None,
        wanted: torch.Tensor,
    ) -> torch.Tensor:
        of_states = torch.empty_like(states)
        needed = ctx.needs_input_grad[1]  # type: ignore[attr-defined]
        of_output = torch.zeros_like(output, dtype=torch.float32) if needed else None
        total = torch.zeros((), device=states.device)
        for first in range(0, len(states), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            logits = (states[part] @ output.T).float()
            if bias is not None:
                logits += bias
            places = wanted[part, None]
            logits -= logits.amax(-1, keepdim=True)
            total -= logits.gather(1, places).sum()
            sums = logits.exp_().sum(-1, keepdim=True)
            total += sums.log().sum()
            # From here on the gradient: probabilities, less one of what is wanted.
            logits /= sums
            logits.scatter_add_(1, places, torch.full_like(sums, -1))
            gradient = logits.to(states.dtype)
            of_states[part] = gradient @ output
            if of_output is not None:
                of_output += gradient.T @ states[part]
        ctx.save_for_backward(of_states, of_output)  # type: ignore[arg-type]
        return total / len(states)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        of_states, of_output = ctx.saved_tensors  # type: ignore[attr-defined]
        scale = gradient / len(of_states)
        of_weights = None if of_output is None else (of_output * scale).bfloat16()
        return of_states * scale.to(of_states.dtype), of_weights, None, None
