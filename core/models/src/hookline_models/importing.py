"""Imports torch into an engine's process, and sets what must be set at once."""

from importlib import import_module

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device
from hookline.exceptions import ConfigError
from hookline_host.cache_folders import settle_library_caches
from hookline_models.machines.gpu_share import take_gpu


def import_torch(config: EngineConfig, *, is_rank: bool = False) -> bool:
    """Imports torch; nothing has computed, and no code of models is imported yet.

    A process on CPUs that is an engine's own leaves out what it never uses. One of
    several engines on GPUs takes its own.

    Args:
        config: The engine's options.
        is_rank: Whether this is the process of one rank, which is the engine's own
            wherever the engine itself runs.

    Returns:
        Whether the model runs on a GPU.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks, or
            CUDA has started before this engine chose its GPU.
    """
    torch, executor = import_module("torch"), config.executor
    take_gpu(config)  # before CUDA is asked
    limited_isa()  # before anything computes or compiles
    is_on_cpu = executor.device is Device.CPU or not torch.cuda.is_available()
    if (is_rank or executor.shares_cores) and is_on_cpu:
        from hookline_kernels.runtime.unused_imports import (  # noqa: PLC0415
            leave_out_unused,
        )

        leave_out_unused()
    else:  # which may compile by other means than ours
        settle_library_caches()
    return not is_on_cpu


def limited_isa() -> str:
    """Limits compilers and libraries, and returns the name of the tier.

    Call it before code of models is imported. The name is empty if there are no kernels
    for this CPU.

    Raises:
        ConfigError: The variable names no tier of this machine.
    """
    from hookline_kernels import KernelError, import_compiled  # noqa: PLC0415

    try:
        isa = import_compiled("hookline_kernels.cpu.isa")
        return str(isa.current_isa().value)
    except KernelError:
        return ""
    except ValueError as error:
        raise ConfigError("environment", str(error)) from error
