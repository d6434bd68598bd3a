"""Chooses the device that a model runs on."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hookline.config.executor import Device, ExecutorConfig
from hookline.config.parallel import ParallelConfig
from hookline.exceptions import ConfigError
from hookline.worker.instruction_set import limited_isa
from hookline_kernels import CPU, Platform
from hookline_kernels.gpu.graph_capture import Capture, CudaCapture

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Machine:
    """A device, its kernels and its CUDA graphs.

    Attributes:
        platform: The device and the kind of kernels for it.
        new_capture: Creates a capturer of graphs; None launches each step.
        isa: Instruction set of the CPU's kernels, such as `avx512`; empty with a GPU
            and on CPUs for which there are no kernels.
    """

    platform: Platform
    new_capture: Callable[[], Capture] | None = None
    isa: str = ""


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
        if isa := limited_isa():
            _log.info("CPU kernels use instructions up to %s", isa)
        return Machine(CPU, isa=isa)
    device = torch.device("cuda", torch.cuda.current_device())
    return Machine(
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
