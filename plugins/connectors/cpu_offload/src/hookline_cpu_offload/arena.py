"""Host memory for blocks: one allocation of a fixed size, in slots."""

import ctypes
import mmap
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hookline.exceptions import ConfigError
from hookline_kv_transfer import KVLayout
from hookline_kv_transfer.blocks import Bytes
from hookline_kv_transfer.config import OPTION

_AHEAD = 64 << 20
"""Bytes made resident ahead of their use."""
_PIECE = 2 << 20
"""Bytes made resident per call, which blocks other memory mappings of the process."""
_MADV_POPULATE_WRITE = 23


class Arena:
    """Slots of one block each, one after another, a block's layers together.

    Pages are the system's until they are about to be used: a thread asks for them, a
    little ahead, since the system takes longer to clear a page than it takes to fill
    it. Each slot knows whose content it has, so that none is taken for another's.

    Attributes:
        layers: Of each, [slots, bytes].
    """

    def __init__(self, layout: KVLayout, num_slots: int) -> None:
        """Asks for the whole of it.

        Raises:
            ConfigError: The system does not give so much.
        """
        size = layout.total_bytes
        try:
            memory = mmap.mmap(-1, num_slots * size)
        except OSError as error:
            raise ConfigError(
                OPTION,
                f"cpu_bytes_to_use: {num_slots * size} bytes not available: {error}",
            ) from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes: Bytes = np.frombuffer(memory, np.uint8)
        self._slots = self._bytes.reshape(num_slots, size)
        self.layers: list[Bytes] = [self._slots[:, each] for each in layout.columns]
        self._content: list[bytes | None] = [None] * num_slots
        self._warmed = 0
        self._warmer = ThreadPoolExecutor(1, "hookline-cpu-offload-warm")
        self._warm(0)

    def holds(self, slot: int, block_hash: bytes) -> bool:
        return self._content[slot] == block_hash

    def open(self, slots: Iterable[int]) -> None:
        """Marks the slots' content as undefined until `settle`."""
        for slot in slots:
            self._content[slot] = None

    def settle(self, slots: Sequence[int], block_hashes: Sequence[bytes]) -> None:
        """Their content is there, in all layers."""
        for slot, block_hash in zip(slots, block_hashes, strict=True):
            self._content[slot] = block_hash
        self._warm(max(slots) + 1)

    def copy(self, slots: Sequence[int]) -> Bytes:
        """[slots, bytes of all layers]."""
        return self._slots[slots]

    def close(self) -> None:
        """Ends the thread; memory goes with the last who has a part of it."""
        self._warmer.shutdown(cancel_futures=True)

    def _warm(self, used_slots: int) -> None:
        """Has pages ready behind the slots that are used."""
        goal = min(used_slots * self._slots.shape[1] + _AHEAD, self._bytes.nbytes)
        if goal - self._warmed >= min(_AHEAD // 2, self._bytes.nbytes):
            self._warmer.submit(_populate, self._bytes[self._warmed : goal])
            self._warmed = goal


def _populate(part: Bytes) -> None:
    """Has the system give pages, which changes nothing in them; Linux does, from 5.14.

    Elsewhere they come when they are written to.
    """
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    start = part.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    end = part.ctypes.data + part.nbytes
    for at in range(start, end, _PIECE):
        if advise(at, min(_PIECE, end - at), _MADV_POPULATE_WRITE):
            return
