"""Chooses the machine that a model runs on, and sets up its process."""

import logging

import torch

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device, ExecutorConfig
from hookline.engine.worker.machine import Machine
from hookline.exceptions import ConfigError
from hookline_kernels import Platform
from hookline_kernels.gpu.graph_capture import CudaCapture
from hookline_kernels.runtime.allocator import keep_freed_memory
from hookline_kernels.runtime.threads.choosing import take_threads
from hookline_models.importing import limited_isa
from hookline_models.machines.cpu import CpuMachine
from hookline_models.machines.cuda import CudaMachine
from hookline_models.machines.gpu_share import take_gpu

_log = logging.getLogger(__name__)


def init_device(config: EngineConfig) -> Machine:
    """Chooses the device and sets up memory and threads of this process.

    Raises:
        ConfigError: The configured device does not exist, or is a GPU and cannot have
            what is configured.
    """
    machine = choose_machine(config.executor, take_gpu(config).engines)
    if machine.isa:
        _log.info("CPU kernels use instructions up to %s", machine.isa)
    if machine.platform.is_gpu:
        check_gpu(config)
    keep_freed_memory()
    take_threads(config.executor.threads, config.num_concurrent)
    return machine


def choose_machine(config: ExecutorConfig, sharers: int = 1) -> Machine:
    """Returns the configured device.

    Args:
        config: Names the device.
        sharers: Number of engines that divide a GPU's memory.

    Raises:
        ConfigError: `cuda` is configured, but torch finds no CUDA device, or the
            environment asks for instructions that this machine lacks.
    """
    has_gpu = torch.cuda.is_available()
    if config.device is Device.CUDA and not has_gpu:
        raise ConfigError(
            "device",
            "torch finds no CUDA device: check the driver, and that torch is built for "
            "CUDA",
        )
    if config.device is Device.CPU or not has_gpu:
        return CpuMachine(limited_isa())
    device = torch.device("cuda", torch.cuda.current_device())
    return CudaMachine(
        Platform(device, is_gpu=True),
        None if config.enforce_eager else CudaCapture,
        sharers,
    )


def check_gpu(config: EngineConfig) -> None:
    """Raises `ConfigError` for what engines on GPUs cannot have."""
    parallel, instead = config.parallel, "device cpu computes on CPUs"
    if config.engines_here > 1 and config.in_process:
        raise ConfigError(
            "in-process",
            "several engines on GPUs need processes of their own, each with its GPU",
        )
    if config.cache.sibling_blocks is not None:
        raise ConfigError(
            "data-parallel-size", f"engines on GPUs cannot come and go; {instead}"
        )
    if config.spreads_experts:
        raise ConfigError(
            "enable-expert-parallel", f"is not supported on GPUs; {instead}"
        )
    for option, number in (
        ("tensor-parallel-size", parallel.tensor_parallel_size),
        ("pipeline-parallel-size", parallel.pipeline_parallel_size),
    ):
        if number > 1:
            raise ConfigError(
                option,
                f"{number} is not supported on GPUs, where the only value is 1; "
                f"{instead}",
            )
