"""The forward pass to start with: by kernels, or by torch while they are compiled."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from hookline.config.engine import EngineConfig
from hookline.config.executor import Kernels
from hookline.models.probe import Probed
from hookline.worker.forward import Forward
from hookline.worker.paged_cache import PagedCache
from hookline_kernels import KernelError, Platform
from hookline_kernels.missing import KernelMissingError, OnlyCached, when_missing
from hookline_kernels.runtime.kernel_cache import writable_cache
from hookline_kernels.sampling import choose_sampling

_log = logging.getLogger(__name__)

COMPILING = "its kernels are being compiled"


class ChooseForward(Protocol):
    """Chooses a model's forward pass; `why_torch` says why kernels may not compute."""

    def __call__(self, *, may_compile: bool, why_torch: str = ...) -> Forward: ...


@dataclass(frozen=True, slots=True)
class FirstForward:
    """A forward pass, and what may replace it.

    Attributes:
        forward: Computes the first steps.
        with_kernels: Makes the forward pass that uses kernels, once they are compiled;
            None if `forward` does.
    """

    forward: Forward
    with_kernels: Callable[[], Forward] | None = None


def serves_meanwhile(config: EngineConfig, platform: Platform) -> bool:
    """Whether an engine serves with torch while its kernels are compiled.

    Proposers and extensions are shown the forward pass and the cache once, and must not
    see others later.
    """
    executor = config.executor
    return (
        executor.serve_while_compiling
        and executor.shares_cores
        and executor.kernels is Kernels.AUTO
        and not platform.is_gpu
        and config.speculative is None
    )


def _keeps_kernels() -> bool:
    """Whether what another process compiles can reach this one."""
    try:
        writable_cache()
    except KernelError as error:
        _log.warning("no kernels are compiled in the background: %s", error)
        return False
    return True


def first_forward(  # noqa: PLR0917 - two dtypes of one model
    config: EngineConfig,
    platform: Platform,
    choose: ChooseForward,
    probed: Probed,
    dtype: torch.dtype,
    cache_dtype: torch.dtype | None = None,
) -> FirstForward:
    """Chooses the forward pass to start with.

    Args:
        config: The engine's configuration.
        platform: The model's platform.
        choose: Makes a forward pass; can be called again after a kernel was missing.
        probed: The model's layers.
        dtype: The model's data type.
        cache_dtype: The KV cache's; None is the model's.
    """
    if not serves_meanwhile(config, platform) or not _keeps_kernels():
        may_compile = config.executor.may_compile
        return FirstForward(choose(may_compile=may_compile))
    cached = OnlyCached()
    try:
        with when_missing(cached):
            size = config.cache.block_size
            choose_sampling(dtype, platform=platform)
            PagedCache(probed.layers, 1, size, dtype, cache_dtype=cache_dtype)
            forward = choose(may_compile=True)
    except KernelMissingError as error:
        _log.debug("%s", error)
    if not cached.missing:
        return FirstForward(forward)
    plain = choose(may_compile=False, why_torch=COMPILING)
    return FirstForward(plain, partial(choose, may_compile=True))
