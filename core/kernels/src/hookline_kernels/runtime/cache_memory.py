"""Returns the memory of a KV cache to the system while an engine sleeps.

The tensors stay, and so does every view of them. In main memory their addresses stay,
too; on a device they change, so that everything recorded over them is recorded again.
"""

import ctypes
import mmap
import sys
from collections.abc import Sequence

import torch

_MADV_DONTNEED = 4


class CacheMemory:
    """The tensors of a KV cache, whose memory can be released and restored."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Manages tensors; each must be the only user of its memory."""
        self._storages = [tensor.untyped_storage() for tensor in tensors]
        self._sizes = [storage.nbytes() for storage in self._storages]
        self._tensors = list(tensors)

    def free(self) -> None:
        """Returns the memory to the system; the contents are lost.

        Nothing may read or write the tensors until `restore`. In main memory this
        needs Linux; elsewhere the memory stays.
        """
        for storage in self._storages:
            if storage.device.type == "cpu":
                _return_pages(storage.data_ptr(), storage.nbytes())
            else:
                storage.resize_(0)

    def restore(self) -> None:
        """Allocates the memory again, all zeros.

        Pages of main memory come back when they are first used.
        """
        for tensor, storage, size in zip(
            self._tensors, self._storages, self._sizes, strict=True
        ):
            if storage.device.type == "cpu":
                continue
            storage.resize_(size)
            tensor.zero_()


def _return_pages(address: int, size: int) -> None:
    """Returns the whole pages within a range; the rest is cleared."""
    if not sys.platform.startswith("linux"):
        ctypes.memset(address, 0, size)
        return
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if end <= start:
        ctypes.memset(address, 0, size)
        return
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if advise(start, end - start, _MADV_DONTNEED):
        raise OSError(ctypes.get_errno(), "madvise cannot return the KV cache's memory")
    ctypes.memset(address, 0, start - address)
    ctypes.memset(end, 0, address + size - end)
