"""Replaces the parts of a model that have a faster form."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

from torch import nn

from hookline_kernels.modules.gated import FastGated, FusedGated, fast_gated
from hookline_kernels.modules.linears import FastLinear, is_worth_packing
from hookline_kernels.modules.norms import fast_norm
from hookline_kernels.runtime.weight_pages import give_back_clean_pages


@dataclass(slots=True)
class Adaptation:
    """Numbers of replaced parts.

    Attributes:
        linears: Single linear layers, now with packed weights.
        gated: Whole gated MLPs.
        norms: RMSNorm layers.
    """

    linears: int = 0
    gated: int = 0
    norms: int = 0


def adapt(model: nn.Module) -> Adaptation:
    """Replaces parts in place; afterwards each weight is held once.

    A tied output layer gets a packed copy, because the embedding needs the plain one.
    """
    done = Adaptation()
    _replace_norms(model, done)
    _replace_linears(model, done)
    if done.linears or done.gated:
        give_back_clean_pages()
    return done


def _replace_norms(model: nn.Module, done: Adaptation) -> None:
    """Replaces norms; none without a compiler."""
    for parent in list(model.modules()):
        done.norms += _replace_children(parent, fast_norm)


def _replace_linears(parent: nn.Module, done: Adaptation) -> None:
    """Replaces whole gated MLPs first, then single layers."""
    done.gated += _replace_children(parent, fast_gated)
    for child in parent.children():
        if not isinstance(child, (FastGated, FusedGated)):
            _replace_linears(child, done)
    if not reads_weights(parent):
        done.linears += _replace_children(parent, _fast_linear)


def _replace_children(
    parent: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]
) -> int:
    """Returns the number of replaced children."""
    found = {name: replacement(child) for name, child in parent.named_children()}
    replaced = {name: fast for name, fast in found.items() if fast is not None}
    for name, fast in replaced.items():
        setattr(parent, name, fast)
    return len(replaced)


def reads_weights(parent: nn.Module) -> bool:
    """Whether a module's code reads its layers' weights, which then stay."""
    forward = inspect.unwrap(type(parent).forward)
    return isinstance(forward, FunctionType) and "weight" in forward.__code__.co_names


def _fast_linear(module: nn.Module) -> FastLinear | None:
    if type(module) is nn.Linear and is_worth_packing(module.weight):
        return FastLinear(module.weight, module.bias)
    return None
