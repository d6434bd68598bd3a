"""Free blocks of the KV cache in the order in which they are reused, and evicted."""

from collections.abc import Iterable

from hookline.clock import Clock, SystemClock
from hookline.stats.prefix_cache import EvictionWork


class Block:
    """A block of the KV cache, and its links in the free list.

    Attributes:
        references: Number of block tables and extensions that use the block.
        block_hash: Key of its content in the prefix cache; None if it is not cached.
    """

    __slots__ = ("block_hash", "block_id", "next", "previous", "references")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.references = 0
        self.block_hash: bytes | None = None
        self.previous: Block | None = None
        self.next: Block | None = None


class FreeList:
    """A doubly linked list, least recently used first; every operation is O(1)."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._head = Block(-1)
        self._tail = Block(-2)
        self._head.next, self._tail.previous = self._tail, self._head
        self._length = 0
        for block in blocks:
            self.append(block)

    def __len__(self) -> int:
        return self._length

    def append(self, block: Block) -> None:
        last = self._tail.previous
        assert last is not None
        last.next, block.previous = block, last
        block.next, self._tail.previous = self._tail, block
        self._length += 1

    def prepend(self, block: Block) -> None:
        first = self._head.next
        assert first is not None
        first.previous, block.next = block, first
        block.previous, self._head.next = self._head, block
        self._length += 1

    def remove(self, block: Block) -> None:
        assert block.previous is not None
        assert block.next is not None
        block.previous.next, block.next.previous = block.next, block.previous
        block.previous = block.next = None
        self._length -= 1

    def pop_oldest(self) -> Block:
        """Removes and returns the first block; the list must not be empty."""
        block = self._head.next
        assert block is not None
        assert block is not self._tail
        self.remove(block)
        return block


class Evictions:
    """The evictions of one block pool.

    An allocation that evicts nothing reads no clock, any other reads it twice.

    Attributes:
        total: Number of blocks evicted so far.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.total = 0
        self._clock = clock or SystemClock()
        self._since: int | None = None
        self._told = self._nanoseconds = 0

    def count(self) -> None:
        """Counts a block that is about to be evicted by an allocation."""
        self.total += 1
        if self._since is None:
            self._since = self._clock.now()

    def end(self) -> None:
        """Ends an allocation."""
        if self._since is not None:
            self._nanoseconds += self._clock.now() - self._since
            self._since = None

    def take_work(self) -> EvictionWork:
        """Returns what evictions took since the last call."""
        work = EvictionWork(self.total - self._told, self._nanoseconds)
        self._told, self._nanoseconds = self.total, 0
        return work
