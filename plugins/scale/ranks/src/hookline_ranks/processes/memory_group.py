"""The tensor-parallel ranks of one machine, which exchange through shared memory."""

import ctypes

import torch

from hookline.exceptions import RankError
from hookline_kernels import import_compiled
from hookline_ranks.processes.shared_memory import SharedMemory

DEADLINE_SECONDS = 600.0
"""How long a rank waits for others. The executor ends all ranks once one has ended, and
a server gives up a step long before; this ends ranks that wait for different things."""


class SharedMemoryGroup:
    """A `StepGroup` of processes, or threads, that share memory.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
        is_recordable: True.
        is_capturable: False: a CUDA graph cannot capture it.
    """

    is_recordable = True
    is_capturable = False

    def __init__(
        self,
        memory: SharedMemory,
        rank: int,
        size: int,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Attaches to the group's memory, of `group_bytes`.

        Raises:
            KernelError: No compiler is installed, or the system is not supported.
        """
        exchange = import_compiled("hookline_kernels.cpu.rank_exchange")
        self.rank, self.size = rank, size
        self._memory = memory  # mapped as long as this lives
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory.view))
        self._exchange = exchange.RankExchange(
            address, rank, size, deadline_seconds=deadline_seconds
        )
        self._spent_ns = 0

    def all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """Implements `TensorGroup`; float16 is summed as float32."""
        dtype, values = partial.dtype, partial.contiguous()
        if dtype not in {torch.float32, torch.bfloat16}:
            values = values.float()
        self._exchange.all_reduce(values)
        self._check()
        return values.to(dtype)

    def gather(self, part: torch.Tensor) -> torch.Tensor | None:
        """Implements `TensorGroup`."""
        joined = self._exchange.gather(part.contiguous())
        self._check()
        if joined is None:
            return None
        rows: torch.Tensor = joined.transpose(0, 1)
        return rows.reshape(len(part), -1)

    def end_step(self) -> int:
        """Implements `StepGroup`; recorded sums are checked here only."""
        self._check()
        before, self._spent_ns = self._spent_ns, self._exchange.spent_ns
        return self._spent_ns - before

    def _check(self) -> None:
        if (absent := self._exchange.absent) is not None:
            raise RankError(absent, "it does not compute the step that others compute")
        if (contrary := self._exchange.contrary) is not None:
            raise RankError(contrary, "it computes something else than others do")


def group_bytes(size: int) -> int:
    """Returns the size of the memory of a group of `size` ranks."""
    exchange = import_compiled("hookline_kernels.cpu.rank_exchange")
    found: int = exchange.shared_bytes(size)
    return found
