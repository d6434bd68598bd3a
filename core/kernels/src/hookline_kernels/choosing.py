"""Chooses the quickest attention that this machine has for a shape."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from hookline_kernels.attention import attend_written, reference_attention
from hookline_kernels.failure import KernelError

_log = logging.getLogger(__name__)

Attention = Callable[..., torch.Tensor]
"""As `reference_attention`: writes a step's keys and values, then attends."""


@dataclass(frozen=True, slots=True)
class ChosenAttention:
    """What attends for a layer.

    Attributes:
        attend: Does.
        attend_written: The same for keys and values that are in the cache already.
        name: `compiled` or `torch`.
        reason: Why it is not compiled; empty if it is, or if that was not wanted.
    """

    attend: Attention
    attend_written: Attention
    name: str
    reason: str = ""


def choose_attention(
    *,
    num_heads: int,
    num_kv_heads: int,
    key_dim: int,
    value_dim: int,
    block_size: int,
    dtype: torch.dtype,
    may_compile: bool = True,
) -> ChosenAttention:
    """Compiled attention, or the reference with a warning that says why.

    The compiler is imported here, so that whoever chooses nothing needs none.
    """
    if not may_compile:
        return _reference("")
    try:
        compiled = import_module("hookline_kernels.cpu.attention")
        attention = compiled.CompiledAttention(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block_size,
            dtype=dtype,
        )
    except (ImportError, KernelError) as error:
        _log.warning("attention runs as plain tensor operations: %s", error)
        return _reference(str(error))
    return ChosenAttention(attention, attention.attend_written, "compiled")


def _reference(reason: str) -> ChosenAttention:
    return ChosenAttention(reference_attention, attend_written, "torch", reason)
