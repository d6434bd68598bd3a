"""Keeps libraries out of an engine's process that it never uses."""

import sys
from collections.abc import Callable

import torch
import torch.distributed

from hookline_kernels.runtime.deferred_compiler import DeferredCompiler

_MODELS = "transformers"


def leave_out_unused() -> None:
    """Leaves out what code of models imports in vain where a model runs on CPUs.

    That is torch's compiler, with Triton, and tensors that are distributed over
    processes. Anyone who uses the compiler gets it; only `transformers` is told that
    this torch is built without distribution. Call it once, before code of models is
    imported, in a process that is the engine's own.
    """
    DeferredCompiler.install()
    torch.distributed.is_available = _left_out_of_models(torch.distributed.is_available)


def _left_out_of_models(is_available: Callable[[], bool]) -> Callable[[], bool]:
    """Returns what says of torch's distribution that code of models does not have it.

    Plugins, and torch itself, get the true answer.
    """

    def answer() -> bool:
        caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001
        return caller.partition(".")[0] != _MODELS and is_available()

    return answer
