"""Imports modules that need a compiler, which an installation may lack."""

from importlib import import_module
from importlib.util import find_spec
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
        package = (error.name or "").partition(".")[0]
        # A part of an installed compiler that is missing is a fault, too.
        if package not in COMPILERS or (error.name != package and find_spec(package)):
            raise
        raise KernelError(f"{package} is not installed") from error
