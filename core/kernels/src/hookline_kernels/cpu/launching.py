"""Starts kernels, whose arguments are int64s, on as many threads as pay."""

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numba.core import types

from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.recording import ReplayedAttention, current
from hookline_kernels.cpu.team import thread_team

Numbers = ctypes.Array[ctypes.c_int64]

_SIGNATURE: Any = types.void(types.intp)
_WORTH_SHARING = 1 << 16
"""Least number of elements for which waking other threads pays."""


def numbers_of(*values: int) -> Numbers:
    """Returns a kernel's arguments; argument 0 is the kernel's own counter."""
    return (ctypes.c_int64 * (len(values) + 1))(0, *values)


class Kernel:
    """A compiled kernel; it is compiled, or read from disk, when it is made.

    Raises:
        KernelError: No compiler is installed, or the system has no threads for it.
    """

    def __init__(self, body: Callable[[Any], None], variant: str) -> None:
        """Compiles void(address of int64s); `variant` names it in the disk cache."""
        # owns the machine code
        self._compiled: Any = compile_kernel(body, _SIGNATURE, variant)
        self._team = thread_team()

    @cached_property
    def _address(self) -> int:
        """Read at the first call: the kernel may still be being compiled."""
        address: int = self._compiled.address
        return address

    def __call__(
        self, elements: int, numbers: Numbers, replay: ReplayedAttention | None = None
    ) -> None:
        """Runs the kernel and waits for it.

        Args:
            elements: Approximate number of elements that it reads.
            numbers: Its arguments.
            replay: Updates the arguments when a recorded step is replayed; arguments
                0 and 1 are then the kernel's own counters.
        """
        numbers[0] = 0
        threads = self.threads(elements)
        if (recorder := current.recorder) is not None:
            arguments = np.array(numbers)
            if replay is None:
                # By its size alone: other steps may have more threads.
                is_alone = elements < _WORTH_SHARING
                recorder.start(self._address, arguments, is_alone=is_alone)
            else:
                recorder.attend(self._address, arguments, replay)
        self._team.run_one(self._address, ctypes.addressof(numbers), threads)

    @staticmethod
    def threads(elements: int) -> int:
        """Returns the number of threads that pay for reading this many elements."""
        return 1 if elements < _WORTH_SHARING else thread_team().threads
