"""Runs compiled functions on torch's OpenMP threads.

A second thread pool would compete with torch's for the cores: OpenMP's threads spin for
a while after each operation.
"""

import ctypes
from functools import cache
from pathlib import Path

import torch

from hookline_kernels.failure import KernelError

_RUNTIMES = ("libgomp", "libiomp5", "libomp")


class Team:
    """Calls one function on each thread of an OpenMP team, with the same argument.

    Attributes:
        function: Address of the function.

    Raises:
        KernelError: torch's threads cannot be reached on this machine.
    """

    def __init__(self, function: int) -> None:
        """Wraps a function void(void *), given by its address."""
        self._fork = openmp().GOMP_parallel
        self._fork.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_uint,
        ]
        self._fork.restype = None
        self.function = function
        self._alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)

    def run(self, address: int, threads: int) -> None:
        """Runs the function and waits for it, without the interpreter's lock."""
        if threads == 1:
            self._alone(address)
        else:
            self._fork(self.function, address, threads, 0)


@cache
def openmp() -> ctypes.CDLL:
    """Returns the OpenMP library that torch loaded; another has its own threads.

    Raises:
        KernelError: torch uses no OpenMP library that can be called.
    """
    torch.get_num_threads()
    try:
        lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    except OSError as error:
        raise KernelError("torch's threads can be reached on Linux only") from error
    loaded = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    for path in sorted(loaded):
        if Path(path).name.startswith(_RUNTIMES):
            library = ctypes.CDLL(path)
            if hasattr(library, "GOMP_parallel"):
                return library
    raise KernelError("torch uses no OpenMP library that can be called")
