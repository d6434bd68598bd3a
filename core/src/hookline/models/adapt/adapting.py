"""Walks through a model and replaces what has a faster form."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

from torch import nn

from hookline.models.adapt.gated import FastGated, TiledGated, fast_gated
from hookline.models.adapt.linears import FastLinear
from hookline.models.adapt.norms import fast_norm
from hookline.models.adapt.pages import give_back_clean_pages
from hookline_kernels.cpu.linear import can_pack


@dataclass(slots=True)
class Adaptation:
    """How many parts of a model were replaced.

    Attributes:
        linears: Linear layers with packed weights, alone.
        gated: Whole feed-forward layers.
        norms: RMSNorm layers.
    """

    linears: int = 0
    gated: int = 0
    norms: int = 0


def adapt(model: nn.Module) -> Adaptation:
    """Replaces the parts in place; each weight is held once when it returns.

    Of a tied output layer a packed copy is made, for the embedding needs the plain one.
    """
    done = Adaptation()
    _replace_norms(model, done)
    _replace_linears(model, done)
    if done.linears or done.gated:
        give_back_clean_pages()
    return done


def _replace_norms(model: nn.Module, done: Adaptation) -> None:
    """Nothing where there is no compiler."""
    for parent in list(model.modules()):
        done.norms += _replace_children(parent, fast_norm)


def _replace_linears(parent: nn.Module, done: Adaptation) -> None:
    """Whole feed-forward layers first, then what stands alone."""
    done.gated += _replace_children(parent, fast_gated)
    for child in parent.children():
        if not isinstance(child, (FastGated, TiledGated)):
            _replace_linears(child, done)
    if not _reads_weights(parent):
        done.linears += _replace_children(parent, _fast_linear)


def _replace_children(
    parent: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]
) -> int:
    """How many children had one."""
    found = {name: replacement(child) for name, child in parent.named_children()}
    replaced = {name: fast for name, fast in found.items() if fast is not None}
    for name, fast in replaced.items():
        setattr(parent, name, fast)
    return len(replaced)


def _reads_weights(parent: nn.Module) -> bool:
    """Whether its code looks into layers; then these stay what they are."""
    forward = inspect.unwrap(type(parent).forward)
    return isinstance(forward, FunctionType) and "weight" in forward.__code__.co_names


def _fast_linear(module: nn.Module) -> FastLinear | None:
    if type(module) is nn.Linear and can_pack(module.weight):
        return FastLinear(module.weight, module.bias)
    return None
