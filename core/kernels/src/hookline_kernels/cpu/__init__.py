"""Kernels for CPUs.

The package limits compilers and libraries to its tier of instructions when it is
imported, as numba looks at the processor when the first function is only defined.
"""

from hookline_kernels.cpu.isa_limits import limit_libraries

limit_libraries()
