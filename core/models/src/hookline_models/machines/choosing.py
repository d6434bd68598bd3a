"""Chooses the machine that a model runs on, and sets up its process."""

import logging

import torch

from hookline.config.engine import EngineConfig
from hookline.config.executor import Device, ExecutorConfig
from hookline.config.parallel import ParallelConfig
from hookline.engine.worker.machine import Machine
from hookline.exceptions import ConfigError
from hookline_kernels import Platform
from hookline_kernels.gpu.graph_capture import CudaCapture
from hookline_kernels.runtime.allocator import keep_freed_memory
from hookline_kernels.runtime.threads.choosing import take_threads
from hookline_models.importing import limited_isa
from hookline_models.machines.cpu import CpuMachine
from hookline_models.machines.cuda import CudaMachine

_log = logging.getLogger(__name__)


def init_device(config: EngineConfig) -> Machine:
    """Chooses the device and sets up memory and threads of this process.

    Raises:
        ConfigError: The configured device does not exist, or is a GPU for several
            engines.
    """
    machine = choose_machine(config.executor)
    if machine.isa:
        _log.info("CPU kernels use instructions up to %s", machine.isa)
    has_siblings = config.cache.sibling_blocks is not None
    check_replicas(machine, config.parallel, config.engines_here + has_siblings)
    keep_freed_memory()
    take_threads(config.executor.threads, config.num_concurrent)
    return machine


def choose_machine(config: ExecutorConfig) -> Machine:
    """Returns the configured device.

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
        Platform(device, is_gpu=True), None if config.enforce_eager else CudaCapture
    )


def check_replicas(machine: Machine, parallel: ParallelConfig, engines: int) -> None:
    """Raises `ConfigError` if several engines or ranks would share a GPU.

    Args:
        machine: The device.
        parallel: Number of ranks.
        engines: Number of engines on this machine.
    """
    if not machine.platform.is_gpu:
        return
    for option, number in (
        ("data-parallel-size", engines),
        ("tensor-parallel-size", parallel.tensor_parallel_size),
        ("pipeline-parallel-size", parallel.pipeline_parallel_size),
    ):
        if number > 1:
            raise ConfigError(
                option,
                f"{number} is not supported on GPUs, where the only value is 1; "
                "device cpu computes on CPUs",
            )
