"""Starts kernels that take a list of numbers, on the threads that their work wants."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba.core import types

from hookline_kernels.cpu.jit import compile_kernel
from hookline_kernels.cpu.recording import Again, current
from hookline_kernels.cpu.team import Team

Numbers = ctypes.Array[ctypes.c_int64]

_SIGNATURE: Any = types.void(types.intp)
_WORTH_SHARING = 1 << 16
"""Elements that take long enough for the waking of other threads to pay."""


def numbers_of(*values: int) -> Numbers:
    """A kernel's list; its first place is the kernel's own."""
    return (ctypes.c_int64 * (len(values) + 1))(0, *values)


class Kernel:
    """Compiled when it is made.

    Raises:
        KernelError: There is no compiler or no team of threads on this machine.
    """

    def __init__(self, body: Callable[[Any], None], variant: str) -> None:
        """Takes void(address of int64s) and the name of what it was made for."""
        compiled: Any = compile_kernel(body, _SIGNATURE, variant)
        self._team = Team(compiled.address)
        self._kept = compiled  # its code goes with it

    def __call__(
        self, elements: int, numbers: Numbers, again: Again | None = None
    ) -> None:
        """Returns when all is done.

        Args:
            elements: About so many are read.
            numbers: Its list.
            again: Says what is new in it when a step is done from notes. The first two
                numbers are the kernel's own then.
        """
        numbers[0] = 0
        threads = self.threads(elements)
        if (recorder := current.recorder) is not None:
            noted, function = np.array(numbers), self._team.function
            if again is None:
                recorder.start(function, noted, is_alone=threads == 1)
            else:
                recorder.attend(function, noted, again)
        self._team.run(ctypes.addressof(numbers), threads)

    @staticmethod
    def threads(elements: int) -> int:
        """That reading so many is worth."""
        return 1 if elements < _WORTH_SHARING else torch.get_num_threads()
