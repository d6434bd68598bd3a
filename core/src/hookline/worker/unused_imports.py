"""Keeps libraries out of an engine's process that it never uses."""

import sys

import torch

from hookline.config import Device, ExecutorConfig

_TRITON = "triton"


def leave_out_triton(config: ExecutorConfig) -> None:
    """Lets imports of Triton fail in an engine's own process on CPUs.

    torch's compiler, which `transformers` loads, imports it wherever it is installed:
    80 MB that nothing here calls.
    """
    is_on_cpu = config.device is Device.CPU or not torch.cuda.is_available()
    if config.shares_cores and is_on_cpu:
        # As the import system defines it; its type has no place for None.
        sys.modules.setdefault(_TRITON, None)  # type: ignore[arg-type]
