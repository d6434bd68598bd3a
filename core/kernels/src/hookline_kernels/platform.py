"""The device that computes, and the kind of its kernels."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Platform:
    """A device, and the kind of its kernels.

    They are separate so that GPU kernels can be interpreted on tensors in main memory.

    Attributes:
        device: The tensors' device.
        is_gpu: Use Triton's kernels; else those for CPUs.
    """

    device: torch.device
    is_gpu: bool


CPU = Platform(torch.device("cpu"), is_gpu=False)
"""This machine's CPU."""
