"""The tensor-parallel ranks of several machines, which exchange over gloo."""

import time

import numpy as np
import torch
from torch._C._distributed_c10d import (
    BroadcastOptions,
    GatherOptions,
    ProcessGroup,
)

from hookline.engine.worker.input_batch import Int64
from hookline_ranks.processes.gloo import as_bytes, meeting


class GlooGroup:
    """A `StepGroup` of processes that are connected by gloo.

    Each rank gets the parts of all and adds them up itself, in the order of ranks: all
    get the same bits, those of ranks that share memory. That is one exchange, where
    gloo's own sum takes two; between two ranks it moves no more bytes.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
        is_recordable: False: a recorded step cannot wait for the network.
        is_capturable: False.
    """

    is_recordable = False
    is_capturable = False

    def __init__(self, group: ProcessGroup, rank: int) -> None:
        """Wraps a process group.

        Args:
            group: All ranks that share a layer.
            rank: Index of this rank among all of the engine, for errors.
        """
        self.rank, self.size = group.rank(), group.size()
        self._group, self._whole_rank = group, rank
        self._spent_ns = 0

    def all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        """Implements `TensorGroup`; sums are rounded once."""
        own = partial.contiguous()
        parts = own.new_empty(self.size, *own.shape)
        self._exchange(as_bytes(parts), as_bytes(own))
        total = parts[0].float()
        for part in parts[1:]:
            total.add_(part)
        return total.to(partial.dtype)

    def gather(self, part: torch.Tensor) -> torch.Tensor | None:
        """Implements `TensorGroup`."""
        own = part.contiguous()
        options = GatherOptions()
        options.rootRank = 0
        parts = [
            torch.empty_like(own) for _ in range(self.size if not self.rank else 0)
        ]
        started = time.perf_counter_ns()
        with meeting(self._whole_rank):
            there = [[as_bytes(each) for each in parts]] if parts else []
            self._group.gather(there, [as_bytes(own)], options).wait()
        self._spent_ns += time.perf_counter_ns() - started
        return torch.cat(parts, 1) if parts else None

    def send_tokens(self, token_ids: Int64) -> None:
        """Sends sampled tokens [S] from rank 0 to the others."""
        self._broadcast(torch.from_numpy(np.array(token_ids)))

    def receive_tokens(self, count: int) -> Int64:
        """Waits for the `count` tokens that rank 0 has sampled."""
        found = torch.empty(count, dtype=torch.int64)
        self._broadcast(found)
        return found.numpy()

    def end_step(self) -> int:
        """Implements `StepGroup`; each exchange has raised its errors."""
        spent, self._spent_ns = self._spent_ns, 0
        return spent

    def _exchange(self, parts: torch.Tensor, own: torch.Tensor) -> None:
        """Joins the bytes of all ranks, in their order."""
        started = time.perf_counter_ns()
        with meeting(self._whole_rank):
            self._group._allgather_base(parts, own).wait()  # noqa: SLF001
        self._spent_ns += time.perf_counter_ns() - started

    def _broadcast(self, token_ids: torch.Tensor) -> None:
        options = BroadcastOptions()
        options.rootRank = options.rootTensor = 0
        with meeting(self._whole_rank):
            self._group.broadcast([token_ids], options).wait()
