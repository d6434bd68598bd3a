"""Gives each of the engines of a machine a GPU, or a share of one.

An engine's process sees no other GPU than its own: the variable that CUDA reads names
it, and is set before CUDA starts in that process. Nothing is shared between engines.
"""

import logging
import os
from dataclasses import dataclass
from functools import cache

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device
from hookline.exceptions import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuShare:
    """The GPU of this process.

    Attributes:
        name: As CUDA calls it; empty for the one that CUDA chooses.
        engines: Number of engines that divide its memory.
    """

    name: str = ""
    engines: int = 1


def take_gpu(config: EngineConfig) -> GpuShare:
    """Chooses the GPU of this engine among those of its machine, at its first call.

    Call it before anything asks CUDA for devices. An engine without others on its
    machine, or in a process with others, leaves CUDA the choice.

    Raises:
        ConfigError: CUDA has started, so the choice would have no effect.
    """
    engines = config.engines_here
    if engines == 1 or config.in_process or config.executor.device is Device.CPU:
        return GpuShare()
    # The engines of a machine have consecutive numbers, so these are all different.
    return _take(config.engine_index % engines, engines)


def divide(place: int, engines: int, gpus: int) -> tuple[int, int]:
    """Returns which GPU an engine has, and the number of engines on it.

    Args:
        place: Number of the engine among those of its machine, from 0.
        engines: Number of engines.
        gpus: Number of GPUs, at least 1.
    """
    own = place % gpus
    return own, len(range(own, engines, gpus))


@cache
def _take(place: int, engines: int) -> GpuShare:
    from torch import cuda  # noqa: PLC0415 - processes without a model lack it

    names = _visible(cuda.device_count())
    if not names:
        return GpuShare()
    own, sharers = divide(place, engines, len(names))
    os.environ[VISIBLE] = names[own]
    if cuda.device_count() != 1:
        raise ConfigError(
            "data-parallel-size",
            "CUDA started before a GPU was chosen, because NVML counts none; "
            f"start one server for each GPU, with its own {VISIBLE}",
        )
    among = f"GPU {names[own]}, {own + 1} of {len(names)}"
    _log.info("the engine has %s, with %d of %d engines", among, sharers, engines)
    return GpuShare(names[own], sharers)


def _visible(count: int) -> list[str]:
    """Names of the GPUs that this process may use, of which CUDA finds `count`."""
    named = os.environ.get(VISIBLE)
    names = map(str, range(count)) if named is None else named.split(",")
    return [name.strip() for name in names][:count]
