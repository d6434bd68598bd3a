"""Rotary embedding as one kernel, under the attention that a family's code computes.

Its attention calls a function of its module by name. Each attention layer becomes one
of a class of its own, whose `forward` is the same code but finds the kernel under that
name; what `transformers` shares with other models is not changed.
"""

from collections.abc import Callable
from types import FunctionType

import torch
from torch import nn

from hookline.models.adapt.trial import agree
from hookline_kernels.cpu.rotary import Rotary
from hookline_kernels.failure import KernelError

_NAME = "apply_rotary_pos_emb"
_TRIAL_DIM = 16

RotaryCall = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def quicken_rotary(module: nn.Module) -> bool:
    """Whether the module's attention calls such a function, and now calls the kernel.

    Only functions of (query, key, cosines, sines) that give what the kernel gives are
    replaced; what the kernel does not take, they still compute.
    """
    family = type(module)
    forward = family.forward
    if not isinstance(forward, FunctionType) or _NAME not in forward.__code__.co_names:
        return False
    known = forward.__globals__.get(_NAME)
    weight = next(module.parameters(), None)
    if weight is None or not isinstance(known, FunctionType):
        return False
    try:
        fast = _with_kernel(known, Rotary(weight.dtype))
    except KernelError:
        return False
    if not agree(known, fast, *_trial(weight.dtype)):
        return False
    own = _calling(forward, fast)
    module.__class__ = type(family.__name__, (family,), {"forward": own})
    return True


def _calling(forward: FunctionType, fast: RotaryCall) -> FunctionType:
    """The same code, to which the name means another function."""
    own = FunctionType(
        forward.__code__,
        {**forward.__globals__, _NAME: fast},
        forward.__name__,
        forward.__defaults__,
        forward.__closure__,
    )
    own.__kwdefaults__ = forward.__kwdefaults__
    return own


def _with_kernel(known: RotaryCall, kernel: Rotary) -> RotaryCall:
    def rotate_both(
        query: torch.Tensor,
        key: torch.Tensor,
        cosines: torch.Tensor,
        sines: torch.Tensor,
        *others: object,
        **options: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not others and not options and kernel.takes(query, key, cosines, sines):
            return kernel(query, key, cosines, sines)
        return known(query, key, cosines, sines, *others, **options)

    return rotate_both


def _trial(dtype: torch.dtype) -> list[torch.Tensor]:
    """Query and key of other numbers of heads, cosines and sines of no angle at all."""
    source = torch.Generator().manual_seed(0)
    shapes = [(1, 4, 3, _TRIAL_DIM), (1, 2, 3, _TRIAL_DIM), *[(1, 3, _TRIAL_DIM)] * 2]
    return [torch.randn(shape, generator=source).to(dtype) for shape in shapes]
