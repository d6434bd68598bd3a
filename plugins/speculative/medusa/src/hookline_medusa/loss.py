"""Cross-entropy after an output layer, computed in chunks of positions."""

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

_AT_ONCE = 256
"""Positions per chunk, few enough for their logits to fit into the CPU's caches."""


def cross_entropy(
    states: torch.Tensor,
    output: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
) -> torch.Tensor:
    """Returns the mean cross-entropy of target tokens, in nats, a float32 scalar.

    Logits are bfloat16, everything after them float32. Gradients are computed together
    with the loss, because the logits of a chunk are not kept.

    Args:
        states: [n, hidden size].
        output: [vocabulary, hidden size]; gets a gradient if it requires one.
        bias: [vocabulary], which gets no gradient; or None.
        targets: [n] int64.
    """
    found = _CrossEntropy.apply(states.bfloat16(), output.bfloat16(), bias, targets)  # type: ignore[no-untyped-call]
    assert isinstance(found, torch.Tensor)
    return found


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        states: torch.Tensor,
        output: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
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
            places = targets[part, None]
            logits -= logits.amax(-1, keepdim=True)
            total -= logits.gather(1, places).sum()
            sums = logits.exp_().sum(-1, keepdim=True)
            total += sums.log().sum()
            # From here on the gradient: probabilities minus the one-hot targets.
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
