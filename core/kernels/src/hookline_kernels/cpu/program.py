"""Runs a sequence of kernels by one call: the CPU's counterpart of a CUDA graph.

Starting a kernel from Python takes 20 to 40 µs, in which the other threads wait, and a
step starts a hundred. Here the threads go through the list of kernels themselves.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hookline_kernels.cpu.team import thread_team

Int64 = npt.NDArray[np.int64]


class Program:
    """Kernels in order, with their arguments.

    Attributes:
        entries: [kernels, 3] int64: address of the kernel, address of its argument, and
            1 if a single thread runs it.
    """

    def __init__(self, entries: Sequence[tuple[int, int, bool]]) -> None:
        """Wraps (address of void(argument), address of the argument, is alone) entries.

        Raises:
            KernelError: No compiler is installed, or the system has no threads for it.
        """
        self.entries = np.array(entries, np.int64).reshape(-1, 3)
        self._team = thread_team()

    def run(self) -> None:
        """Runs all kernels and waits; what their arguments point to must be alive."""
        team = self._team
        team.run(self.entries.ctypes.data, len(self.entries), team.threads)
