"""Chooses the quickest attention that this machine has for a shape."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from hookline_kernels.attention import attend_written, reference_attention
from hookline_kernels.failure import KernelError
from hookline_kernels.platform import CPU, Platform

_log = logging.getLogger(__name__)

Attention = Callable[..., torch.Tensor]
"""As `reference_attention`: writes a step's keys and values, then attends."""


@dataclass(frozen=True, slots=True)
class ChosenAttention:
    """What attends for a layer.

    Attributes:
        attend: Does.
        attend_written: The same for keys and values that are in the cache already.
        name: `compiled`, `Triton` or `torch`.
        reason: Why it is plain torch; empty if it is not, or if that was wanted.
        has_tiles: Whether a few tokens of a sequence, such as drafts, take less time
            together than as so many decodes, where scores are not capped.
    """

    attend: Attention
    attend_written: Attention
    name: str
    reason: str = ""
    has_tiles: bool = False


def choose_attention(
    *,
    num_heads: int,
    num_kv_heads: int,
    key_dim: int,
    value_dim: int,
    block_size: int,
    dtype: torch.dtype,
    may_compile: bool = True,
    platform: Platform = CPU,
    has_trees: bool = False,
) -> ChosenAttention:
    """The platform's attention, or the reference with a warning that says why.

    With `has_trees`, which only processors can, steps may have a `TreeMask`.

    The compiler is imported here, so that whoever chooses nothing needs none.
    """
    if not may_compile:
        return _reference("")
    own = {"has_trees": True} if has_trees else {}
    try:
        kind = _triton() if platform.is_gpu else _compiled()
        attention = kind(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            dtype=dtype,
            **own,
        )
    except (ImportError, KernelError) as error:
        _log.warning("attention runs as plain tensor operations: %s", error)
        return _reference(str(error))
    written = attention.attend_written
    if platform.is_gpu:
        return ChosenAttention(attention, written, "Triton")
    return ChosenAttention(
        attention, written, "compiled", has_tiles=attention.has_tiles
    )


def _compiled() -> Any:
    return import_module("hookline_kernels.cpu.attention").CompiledAttention


def _triton() -> Any:
    return import_module("hookline_kernels.gpu.attention").TritonAttention


def _reference(reason: str) -> ChosenAttention:
    return ChosenAttention(reference_attention, attend_written, "torch", reason)
