"""Chooses the fastest attention that this machine has for a shape."""

import logging
from dataclasses import dataclass
from typing import Any

import torch

from hookline_kernels.attention import attend_written, reference_attention
from hookline_kernels.attention_layer import Attend
from hookline_kernels.failure import KernelError
from hookline_kernels.importing import import_compiled
from hookline_kernels.latent import attend_latent, latent_attention
from hookline_kernels.platform import CPU, Platform

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenAttention:
    """The attention of layers of one shape.

    Attributes:
        attend: Writes a step's keys and values, then attends.
        attend_written: Attends over keys and values that are in the cache already.
        name: `compiled`, `Triton` or `torch`.
        reason: Why it fell back to torch; empty if it did not.
        has_tiles: Whether a few tokens of a request, such as drafts, take less time
            together than as separate decodes; only for plain layers.
    """

    attend: Attend
    attend_written: Attend
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
    cache_dtype: torch.dtype | None = None,
    may_compile: bool = True,
    platform: Platform = CPU,
    has_trees: bool = False,
    is_latent: bool = False,
) -> ChosenAttention:
    """Returns the platform's attention, or the torch reference.

    Falls back, with a warning that names the cause, where the compiler is not installed
    or has no kernel for the shape. Compilers are imported only here and on demand.

    Args:
        num_heads: Number of query heads.
        num_kv_heads: Number of KV heads; divides `num_heads`.
        key_dim: Width of a key.
        value_dim: Width of a value.
        block_size: Tokens in a block of the cache.
        dtype: Of queries.
        cache_dtype: Of the cache, if it is another one: one of 8 bits, CPU only.
        may_compile: False asks for the torch reference.
        platform: Where the model computes.
        has_trees: Steps may carry a `TreeMask`; CPU only.
        is_latent: Values are a view of the keys, which are rows in memory.
    """
    if is_latent and not platform.is_gpu:
        return _LATENT
    if not may_compile:
        return _LATENT if is_latent else _reference("")
    own: dict[str, object] = {"has_trees": True} if has_trees else {}
    if cache_dtype not in {None, dtype}:
        own["cache_dtype"] = cache_dtype
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
    except KernelError as error:
        _log.warning("attention falls back to torch: %s", error)
        return _LATENT if is_latent else _reference(str(error))
    written = attention.attend_written
    if platform.is_gpu:
        return ChosenAttention(attention, written, "Triton")
    return ChosenAttention(
        attention, written, "compiled", has_tiles=attention.has_tiles
    )


_LATENT = ChosenAttention(latent_attention, attend_latent, "torch")
"""Products of all heads with the latents, which torch computes fast enough."""


def _compiled() -> Any:
    return import_compiled("hookline_kernels.cpu.attention").CompiledAttention


def _triton() -> Any:
    return import_compiled("hookline_kernels.gpu.attention").TritonAttention


def _reference(reason: str) -> ChosenAttention:
    return ChosenAttention(reference_attention, attend_written, "torch", reason)
