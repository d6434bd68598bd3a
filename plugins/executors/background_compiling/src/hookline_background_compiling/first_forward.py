"""The forward pass to start with: by kernels, or by torch while they are compiled."""

import logging
from functools import partial

from hookline.config.executor import Kernels
from hookline.engine.worker.paged_cache import PagedCache
from hookline_background_compiling.config import BackgroundCompilingConfig
from hookline_background_compiling.upgrade import WorkerUpgrade
from hookline_kernels import KernelError
from hookline_kernels.missing import KernelMissingError, OnlyCached, when_missing
from hookline_kernels.runtime.kernel_cache import writable_cache
from hookline_kernels.sampling import choose_sampling
from hookline_models.forwards.first_forward import (
    ChooseForward,
    FirstForward,
    ModelToRun,
)

_log = logging.getLogger(__name__)

COMPILING = "its kernels are being compiled"


def first_forward(model: ModelToRun, choose: ChooseForward) -> FirstForward:
    """Implements `StartForward`."""
    if not _serves_meanwhile(model) or not _keeps_kernels():
        return FirstForward(choose(may_compile=model.config.executor.may_compile))
    cached = OnlyCached()
    try:
        with when_missing(cached):
            size = model.config.cache.block_size
            choose_sampling(model.dtype, platform=model.platform)
            PagedCache(
                model.layers, 1, size, model.dtype, cache_dtype=model.cache_dtype
            )
            forward = choose(may_compile=True)
    except KernelMissingError as error:
        _log.debug("%s", error)
    if not cached.missing:
        return FirstForward(forward)
    plain = choose(may_compile=False, why_torch=COMPILING)
    return FirstForward(plain, WorkerUpgrade(partial(choose, may_compile=True)))


def _serves_meanwhile(model: ModelToRun) -> bool:
    """Whether an engine serves with torch while its kernels are compiled."""
    executor = model.config.executor
    return (
        model.may_change
        and executor.shares_cores
        and executor.kernels is Kernels.AUTO
        and not model.platform.is_gpu
        and BackgroundCompilingConfig.of(model.config).serve_while_compiling
    )


def _keeps_kernels() -> bool:
    """Whether what another process compiles can reach this one."""
    try:
        writable_cache()
    except KernelError as error:
        _log.warning("no kernels are compiled in the background: %s", error)
        return False
    return True
