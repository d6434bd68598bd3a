"""Imports modules that need a compiler, which an installation may lack."""

from importlib import import_module
from types import ModuleType

from hookline_kernels.failure import KernelError

COMPILERS = frozenset({"numba", "llvmlite", "triton"})


def import_compiled(name: str) -> ModuleType:
    """Imports a module of kernels.

    Raises:
        KernelError: Their compiler (numba or Triton) is not installed. Any other
            import error is a fault and is raised as it is.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in COMPILERS:
            raise
        raise KernelError(f"{error.name} is not installed") from error
