"""Host memory for blocks: one allocation of a fixed size, in slots."""

import mmap
from collections.abc import Iterable, Sequence

import numpy as np

from hookline.exceptions import ConfigError
from hookline.kv_transfer import KVLayout
from hookline.kv_transfer.blocks import Bytes
from hookline.kv_transfer.config import OPTION


class Arena:
    """Slots of one block each; layer by layer, as blocks are read and written.

    Pages are the system's until they are written to: what is not used costs nothing.
    Each slot knows whose content it has, so that none is taken for another's.
    """

    def __init__(self, layout: KVLayout, num_slots: int) -> None:
        """Asks for the whole of it.

        Raises:
            ConfigError: The system does not give so much.
        """
        try:
            memory = mmap.mmap(-1, num_slots * layout.total_bytes)
        except OSError as error:
            raise ConfigError(
                OPTION,
                f"cpu_bytes_to_use: {num_slots * layout.total_bytes} bytes cannot be "
                f"had: {error}",
            ) from error
        if hasattr(mmap, "MADV_HUGEPAGE"):  # fewer faults as it fills
            memory.madvise(mmap.MADV_HUGEPAGE)
        everything = np.frombuffer(memory, np.uint8)
        self._layers: list[Bytes] = []
        start = 0
        for size in layout.block_bytes:
            end = start + num_slots * size
            self._layers.append(everything[start:end].reshape(num_slots, size))
            start = end
        self._content: list[bytes | None] = [None] * num_slots

    def holds(self, slot: int, block_hash: bytes) -> bool:
        return self._content[slot] == block_hash

    def open(self, slots: Iterable[int]) -> None:
        """Their content is about to change: nobody's until `settle`."""
        for slot in slots:
            self._content[slot] = None

    def settle(self, slots: Iterable[int], block_hashes: Iterable[bytes]) -> None:
        """Their content is there, in all layers."""
        for slot, block_hash in zip(slots, block_hashes, strict=True):
            self._content[slot] = block_hash

    def put(self, layer: int, slots: Sequence[int], data: Bytes) -> None:
        """From [slots, bytes]."""
        self._layers[layer][slots] = data

    def get(self, layer: int, slots: Sequence[int], out: Bytes) -> None:
        """Into [slots, bytes]."""
        np.take(self._layers[layer], slots, axis=0, out=out, mode="clip")

    def copy(self, slots: Sequence[int]) -> Bytes:
        """[slots, bytes of all layers]."""
        return np.concatenate([layer[slots] for layer in self._layers], axis=1)
