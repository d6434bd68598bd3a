"""Which kernels compute, and on which device."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Platform:
    """A device, and the kind of kernels for it.

    The kind is said apart from the device, so that kernels for GPUs can be interpreted
    on tensors in main memory.

    Attributes:
        device: Where tensors lie.
        is_gpu: Triton's kernels compute; else those for processors.
    """

    device: torch.device
    is_gpu: bool


CPU = Platform(torch.device("cpu"), is_gpu=False)
"""This machine's processors."""
