"""Has the system give the KV cache its memory before requests want it."""

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from threading import Event, Thread, get_native_id
from threading import enumerate as live_threads
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever waits for warmers needs no torch
    import torch

_NAME = "hookline-page-warmer"
_MADV_POPULATE_WRITE = 23
_PIECE = 256 << 10
"""Asked for at once. Whoever wants memory of the process waits meanwhile: milliseconds,
even if others keep the thread from its core."""
_NICENESS = 10
"""Requests that come meanwhile are computed on nine tenths of the core."""


class PageWarmer:
    """A thread that walks over the fronts of some memory once, and ends.

    Blocks are handed out from the front; what is beyond comes when it is used.

    The system finds and clears a page when it is first written, which takes longer
    than to compute what is written there. To ask for a page changes nothing in it, so
    requests may be served meanwhile. Where the system knows no such asking (Linux has
    it since 5.14), nothing is done.
    """

    def __init__(self, memory: "Sequence[torch.Tensor]", warmed_bytes: int) -> None:
        """Takes tensors of contiguous memory; of each a like share is warmed."""
        self._stopped = Event()
        self._warmed_bytes = warmed_bytes
        self._memory = memory  # as long as the thread may ask for its pages
        self._thread = Thread(target=self._run, name=_NAME, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it after the piece under way; returns when it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        if not sys.platform.startswith("linux"):
            return
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICENESS)
        total = sum(each.nbytes for each in self._memory)
        share = min(1.0, self._warmed_bytes / max(total, 1))
        for at, end in _pieces(self._memory, share):
            size = min(_PIECE, end - at) // mmap.PAGESIZE * mmap.PAGESIZE
            if self._stopped.is_set() or advise(at, size, _MADV_POPULATE_WRITE):
                return


def _pieces(
    memory: "Sequence[torch.Tensor]", share: float
) -> Iterator[tuple[int, int]]:
    """Where each begins, and where its tensor's share ends.

    The fronts of all come first: the first blocks are in all of them.
    """
    walks = []
    for each in memory:
        start = -(-each.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        end = each.data_ptr() + int(each.nbytes * share)
        walks.append([(at, end) for at in range(start, end - mmap.PAGESIZE, _PIECE)])
    for pieces in zip_longest(*walks):
        yield from (piece for piece in pieces if piece is not None)


def wait_until_warm() -> None:
    """Returns when no warmer of this process is at work any more.

    For whoever measures: what is computed meanwhile takes longer.
    """
    for thread in live_threads():
        if thread.name == _NAME:
            thread.join()
