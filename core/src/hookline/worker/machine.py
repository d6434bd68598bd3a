"""What a model runs on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hookline.config import Device, ExecutorConfig
from hookline.exceptions import ConfigError
from hookline.worker.gpu.cuda_graphs import Capture, CudaCapture
from hookline_kernels import CPU, Platform


@dataclass(frozen=True, slots=True)
class Machine:
    """A device with its kernels.

    Attributes:
        platform: Both.
        new_capture: Makes what captures graphs; None where each step is launched.
    """

    platform: Platform
    new_capture: Callable[[], Capture] | None = None


def choose_machine(config: ExecutorConfig) -> Machine:
    """The device that is asked for.

    Raises:
        ConfigError: There is none.
    """
    has_gpu = torch.cuda.is_available()
    if config.device is Device.CUDA and not has_gpu:
        raise ConfigError(
            "device",
            "cuda is asked for, but torch finds no CUDA device here: check the driver, "
            "and that torch is a build for CUDA",
        )
    if config.device is Device.CPU or not has_gpu:
        return Machine(CPU)
    device = torch.device("cuda", torch.cuda.current_device())
    return Machine(
        Platform(device, is_gpu=True), None if config.enforce_eager else CudaCapture
    )
