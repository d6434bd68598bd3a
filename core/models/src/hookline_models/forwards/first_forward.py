"""The forward pass that a worker starts with, and what may replace it by another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from hookline.config.engine import EngineConfig
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.forward import Forward
from hookline.engine.worker.machine import Upgrade
from hookline_kernels import Platform


class ChooseForward(Protocol):
    """Chooses a model's forward pass; `why_torch` says why kernels may not compute.

    It can be called again after a kernel was missing.
    """

    def __call__(self, *, may_compile: bool, why_torch: str = ...) -> Forward: ...


@dataclass(frozen=True, slots=True)
class ModelToRun:
    """A model whose forward pass is to be chosen.

    Attributes:
        config: The engine's configuration.
        platform: The model's platform.
        layers: Shape of each layer's KV cache.
        dtype: Data type of weights and activations.
        cache_dtype: Data type of the KV cache.
        may_change: Whether the forward pass may be replaced between two steps.
    """

    config: EngineConfig
    platform: Platform
    layers: tuple[LayerCache, ...]
    dtype: torch.dtype
    cache_dtype: torch.dtype
    may_change: bool


@dataclass(frozen=True, slots=True)
class FirstForward:
    """A forward pass to start with.

    Attributes:
        forward: Computes the first steps.
        upgrade: Replaces it by kernels later; None if it is the final one.
    """

    forward: Forward
    upgrade: Upgrade | None = None


StartForward = Callable[[ModelToRun, ChooseForward], FirstForward]
"""Chooses the forward pass to start with."""


def final_forward(model: ModelToRun, choose: ChooseForward) -> FirstForward:
    """Compiles missing kernels before the first step. Implements `StartForward`."""
    return FirstForward(choose(may_compile=model.config.executor.may_compile))
