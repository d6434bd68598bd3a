"""Which block is in which slot of host memory, and which one to evict."""

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple


class Assigned(NamedTuple):
    """A slot assigned to a block.

    Attributes:
        slot: Index of the slot.
        victim: Hash of the evicted block; None if the slot was free.
    """

    slot: int
    victim: bytes | None


class Slots:
    """The slots of one tier; evicts the least recently used block.

    Each slot is used once, in order, before any is used twice, so that memory is
    touched as it is needed.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._by_hash: OrderedDict[bytes, int] = OrderedDict()
        self._free: list[int] = []
        self._untouched = 0

    def __len__(self) -> int:
        return len(self._by_hash)

    def __contains__(self, block_hash: bytes) -> bool:
        return block_hash in self._by_hash

    def find(self, block_hash: bytes) -> int | None:
        return self._by_hash.get(block_hash)

    def touch(self, block_hash: bytes) -> None:
        """Marks a block of the tier as used."""
        self._by_hash.move_to_end(block_hash)

    def assign(self, block_hash: bytes, busy: Collection[int]) -> Assigned | None:
        """Assigns a slot to a new block; returns None if all slots are busy."""
        found = self._free_slot() or self._taken_slot(busy)
        if found is not None:
            self._by_hash[block_hash] = found.slot
        return found

    def forget(self, block_hash: bytes, slot: int) -> None:
        """Frees a slot if it still has this block."""
        if self._by_hash.get(block_hash) == slot:
            del self._by_hash[block_hash]
            self._free.append(slot)

    def clear(self) -> None:
        """Frees all slots."""
        self._free += self._by_hash.values()
        self._by_hash.clear()

    def drop(self, block_hash: bytes) -> None:
        """Frees the slot of a block, if it has one."""
        if (slot := self.find(block_hash)) is not None:
            self.forget(block_hash, slot)

    def _free_slot(self) -> Assigned | None:
        if self._free:
            return Assigned(self._free.pop(), None)
        if self._untouched == self._num_slots:
            return None
        self._untouched += 1
        return Assigned(self._untouched - 1, None)

    def _taken_slot(self, busy: Collection[int]) -> Assigned | None:
        for victim, slot in self._by_hash.items():
            if slot not in busy:
                del self._by_hash[victim]
                return Assigned(slot, victim)
        return None
