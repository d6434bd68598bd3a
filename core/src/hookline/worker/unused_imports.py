"""Keeps libraries out of an engine's process that it never uses."""

import sys

import torch
import torch.distributed

from hookline.config import Device, ExecutorConfig
from hookline.worker.deferred_compiler import DeferredCompiler

_TRITON = "triton"


def leave_out_unused(config: ExecutorConfig) -> None:
    """Leaves out what code of models imports in vain, in an engine's own CPU process.

    That is torch's compiler, Triton, and tensors that are distributed over processes.
    Call it before code of models is imported.
    """
    is_on_cpu = config.device is Device.CPU or not torch.cuda.is_available()
    if not (config.shares_cores and is_on_cpu):
        return
    # As the import system defines it; its type has no place for None.
    sys.modules.setdefault(_TRITON, None)  # type: ignore[arg-type]
    DeferredCompiler.install()
    torch.distributed.is_available = _is_left_out


def _is_left_out() -> bool:
    """Says of torch's distribution over processes what builds without it say."""
    return False
