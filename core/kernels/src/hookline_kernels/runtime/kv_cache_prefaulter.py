"""Faults in the first pages of the KV cache before requests need them."""

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from threading import Event, Thread, get_native_id
from threading import enumerate as live_threads
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `wait_until_prefaulted` needs no torch
    import torch

_NAME = "hookline-kv-prefault"
_MADV_POPULATE_WRITE = 23
_PIECE = 256 << 10
"""Bytes faulted in by one call. Other threads that need memory wait for its end, which
takes milliseconds even on a busy core."""
_NICENESS = 10
"""Requests that run at the same time get nine tenths of the core."""


class KVCachePrefaulter:
    """A thread that faults in the start of each tensor's memory, and then ends.

    Blocks are allocated from the front; later pages are faulted in by their first use.

    Finding and clearing a page takes the system longer than computing what is written
    there. Faulting in changes no contents, so requests may run meanwhile. It needs
    Linux 5.14; elsewhere the thread does nothing.
    """

    def __init__(self, memory: "Sequence[torch.Tensor]", num_bytes: int) -> None:
        """Starts the thread.

        Args:
            memory: Tensors of contiguous memory, each of which gets the same share.
            num_bytes: Bytes to fault in, in all of them together.
        """
        self._stopped = Event()
        self._num_bytes = num_bytes
        self._memory = memory  # keeps it alive while the thread runs
        self._thread = Thread(target=self._run, name=_NAME, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread after its current piece; returns when it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        if not sys.platform.startswith("linux"):
            return
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICENESS)
        total = sum(each.nbytes for each in self._memory)
        share = min(1.0, self._num_bytes / max(total, 1))
        for at, end in _pieces(self._memory, share):
            size = min(_PIECE, end - at) // mmap.PAGESIZE * mmap.PAGESIZE
            if self._stopped.is_set() or advise(at, size, _MADV_POPULATE_WRITE):
                return


def _pieces(
    memory: "Sequence[torch.Tensor]", share: float
) -> Iterator[tuple[int, int]]:
    """Yields the start of each piece, and the end of its tensor's share.

    Alternates between the tensors, because every block is in all of them.
    """
    walks = []
    for each in memory:
        start = -(-each.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        end = each.data_ptr() + int(each.nbytes * share)
        walks.append([(at, end) for at in range(start, end - mmap.PAGESIZE, _PIECE)])
    for pieces in zip_longest(*walks):
        yield from (piece for piece in pieces if piece is not None)


def wait_until_prefaulted() -> None:
    """Waits for these threads, for benchmarks: they slow steps down."""
    for thread in live_threads():
        if thread.name == _NAME:
            thread.join()
