"""Kernels for CPUs.

The package limits compilers and libraries to its tier of instructions when it is
imported, as numba looks at the processor when the first function is only defined.
Without a compiler, or on a processor that no kernel supports, torch is left alone.
"""

from contextlib import suppress
from importlib.util import find_spec

from hookline_kernels.failure import KernelError

if find_spec("llvmlite") is not None:
    from hookline_kernels.cpu.isa_limits import limit_libraries

    with suppress(KernelError):
        limit_libraries()
