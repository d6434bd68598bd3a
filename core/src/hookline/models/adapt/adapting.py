"""Walks through a model and replaces what has a faster form."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType

from torch import nn
from transformers import PreTrainedModel

from hookline.models.adapt.gated import FastGated, fast_gated
from hookline.models.adapt.linears import (
    FastLinear,
    JoinedLinear,
    JoinedLinears,
    are_joinable,
)
from hookline.models.adapt.pages import give_back_clean_pages
from hookline_kernels.cpu.linear import can_pack

_JOINED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names of layers that families give the same input."""


@dataclass(slots=True)
class Adaptation:
    """How many parts of a model were replaced.

    Attributes:
        linears: Linear layers with packed weights.
        joined: Groups of linear layers computed as one.
        gated: Feed-forward layers with the activation in the product.
        norms: RMSNorm layers.
        rotaries: Attention layers whose rotary embedding is a kernel.
    """

    linears: int = 0
    joined: int = 0
    gated: int = 0
    norms: int = 0
    rotaries: int = 0


def adapt(model: PreTrainedModel) -> Adaptation:
    """Replaces the parts in place; each weight is held once when it returns.

    Of a tied output layer a packed copy is made, for the embedding needs the plain one.
    """
    done = Adaptation()
    _adapt_parts(model, done)
    _replace_linears(model, done)
    if done.linears:
        give_back_clean_pages()
    return done


def _adapt_parts(model: PreTrainedModel, done: Adaptation) -> None:
    """What needs the compiler; nothing where there is none."""
    try:
        norms = import_module("hookline.models.adapt.norms")
        rotaries = import_module("hookline.models.adapt.rotaries")
    except ImportError:
        return
    for parent in list(model.modules()):
        done.rotaries += rotaries.quicken_rotary(parent)
        done.norms += _replace_children(parent, norms.fast_norm)


def _replace_linears(parent: nn.Module, done: Adaptation) -> None:
    """Whole feed-forward layers first, then groups, and last what stands alone."""
    gated = _replace_children(parent, fast_gated)
    done.gated += gated
    done.linears += 3 * gated
    for child in parent.children():
        if not isinstance(child, FastGated):
            _replace_linears(child, done)
    if not _reads_weights(parent):
        _join_linears(parent, done)
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


def _join_linears(parent: nn.Module, done: Adaptation) -> None:
    for names in _JOINED:
        linears = [getattr(parent, name, None) for name in names]
        if not are_joinable(linears):
            continue
        joined = JoinedLinears(linears)
        for index, name in enumerate(names):
            setattr(parent, name, JoinedLinear(joined, index))
        done.joined += 1
        done.linears += joined.linear.is_packed


def _fast_linear(module: nn.Module) -> FastLinear | None:
    if type(module) is nn.Linear and can_pack(module.weight):
        return FastLinear(module.weight, module.bias)
    return None
