"""The blocks of the KV cache: reference counts, free list and prefix cache index.

A block is in exactly one of three states:

=========  ==========  =========  ===========================================
state      references  free list  findable by hash
=========  ==========  =========  ===========================================
used       ≥ 1         no         once it is full and cached
reusable   0           yes        until it is allocated for other content
empty      0           yes        no
=========  ==========  =========  ===========================================
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hookline.clock import Clock, SystemClock
from hookline.stats.step_work import BlockEviction, EvictionWork

if TYPE_CHECKING:  # the pool passes requests on
    from hookline.request import Request


class Block:
    """A block of the KV cache.

    Attributes:
        references: Number of block tables and extensions that use the block.
        block_hash: Key of its content in the prefix cache; None if it is not cached.
        is_proven: Whether finite logits are known to depend on its content.
    """

    __slots__ = ("block_hash", "block_id", "is_proven", "references")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.references = 0
        self.block_hash: bytes | None = None
        self.is_proven = False


class Evictions:
    """The evictions of one block pool.

    An allocation that evicts nothing reads no clock, any other reads it twice.

    Attributes:
        total: Number of blocks evicted so far.
        are_timed: Whether the allocation under way has evicted any.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.total = 0
        self.are_timed = False
        self._clock = clock or SystemClock()
        self._since = self._reported = self._nanoseconds = 0

    def count(self) -> None:
        """Counts a block that is about to be evicted by an allocation."""
        self.total += 1
        if not self.are_timed:
            self.are_timed, self._since = True, self._clock.now()

    def close_allocation(self) -> None:
        """Ends an allocation that has evicted blocks."""
        self._nanoseconds += self._clock.now() - self._since
        self.are_timed = False

    def take_work(self) -> EvictionWork:
        """Returns what evictions took since the last call."""
        work = EvictionWork(self.total - self._reported, self._nanoseconds)
        self._reported, self._nanoseconds = self.total, 0
        return work


class CacheListener(Protocol):
    """Follows changes of the prefix cache, in order, on the engine's thread.

    The calls are part of a step: they only note what changed, and raise nothing.
    """

    def block_cached(self, block_id: int, request: "Request", index: int) -> None:
        """Called when a block was cached.

        Args:
            block_id: The block.
            request: A request whose tokens it holds; must not be kept.
            index: Position of the block in the request.
        """

    def block_evicted(self, block_id: int, block_hash: bytes) -> None:
        """Called when a cached block was allocated for other content."""

    def block_distrusted(self, block_id: int, block_hash: bytes) -> None:
        """Called when a cached block turned out to hold wrong keys and values."""

    def cache_reset(self) -> None:
        """Called when the prefix cache was reset: no block is cached any more."""


class BlockPool:
    """A fixed number of blocks with reference counts and a prefix index.

    Invariants: `num_free + num_used == num_blocks`; a block in the free list has no
    references.

    Attributes:
        listeners: Informed of evictions and resets.
        evictions: Number and time of evictions.
        measured: Lives of evicted blocks, from a pool that measures them.
        num_reusable: Free blocks whose content a later request may still find by hash.
        num_references: Sum of all reference counts.
        blocks, free_blocks: All blocks, and the free ones in their order; for reading.
    """

    def __init__(self, num_blocks: int, clock: Clock | None = None) -> None:
        self.evictions = Evictions(clock)
        self.measured: list[BlockEviction] = []
        self.listeners: list[CacheListener] = []
        self._blocks = self.blocks = [Block(block_id) for block_id in range(num_blocks)]
        # Least recently used first; every operation on it is O(1).
        self._free = self.free_blocks = OrderedDict(enumerate(self._blocks))
        self._by_hash: dict[bytes, Block] = {}
        self.num_reusable = 0
        self.num_references = 0

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    @property
    def num_free(self) -> int:
        """Blocks that can be allocated, reusable ones included."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks with at least one reference."""
        return len(self._blocks) - len(self._free)

    def references(self, block_id: int) -> int:
        return self._blocks[block_id].references

    def allocate(self, count: int) -> list[int]:
        """Allocates free blocks, least recently used first; evicts their content.

        Raises:
            ValueError: Fewer than `count` are free; nothing was allocated.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks requested, {len(self._free)} are free")
        allocated = []
        for _ in range(count):
            _, block = self._free.popitem(last=False)
            if block.block_hash is not None:
                self._evict(block)
            block.references, block.is_proven = 1, False
            allocated.append(block.block_id)
        if self.evictions.are_timed:
            self.evictions.close_allocation()
        self.num_references += count
        return allocated

    def touch(self, block_ids: Sequence[int]) -> None:
        """Adds a reference to each; a reusable block leaves the free list."""
        for block_id in block_ids:
            block = self._blocks[block_id]
            if block.references == 0:
                del self._free[block_id]
                self.num_reusable -= block.block_hash is not None
            block.references += 1
        self.num_references += len(block_ids)

    def free(self, block_ids: Sequence[int]) -> None:
        """Drops a reference to each; the last of a prefix is evicted first.

        Raises:
            ValueError: A block had no reference.
        """
        for block_id in reversed(block_ids):
            block = self._blocks[block_id]
            if block.references == 0:
                raise ValueError(f"block {block_id} is freed but has no reference")
            block.references -= 1
            self.num_references -= 1
            if block.references == 0:
                self._free[block_id] = block
                self.num_reusable += block.block_hash is not None

    def free_unused(self, block_ids: Sequence[int]) -> None:
        """Frees uncached blocks with one reference, to be allocated next.

        Blocks that come and go thus evict nothing from the prefix cache.
        """
        for block_id in reversed(block_ids):
            block = self._blocks[block_id]
            assert block.references == 1
            assert block.block_hash is None
            block.references = 0
            self._free[block_id] = block
            self._free.move_to_end(block_id, last=False)
        self.num_references -= len(block_ids)

    def num_unreferenced(self, block_ids: Sequence[int]) -> int:
        """Returns how many of the blocks would leave the free list when touched."""
        return sum(self._blocks[block_id].references == 0 for block_id in block_ids)

    def cache_block(self, block_id: int, block_hash: bytes) -> bool:
        """Makes a used, full block findable.

        Returns:
            False if it is cached already, or another block has the same content.
        """
        block = self._blocks[block_id]
        if block.block_hash is not None or block_hash in self._by_hash:
            return False
        block.block_hash = block_hash
        self._by_hash[block_hash] = block
        return True

    def prove(self, block_ids: Sequence[int]) -> None:
        """Notes that finite logits depend on the content of these blocks."""
        for block_id in block_ids:
            self._blocks[block_id].is_proven = True

    def distrust(self, block_hashes: Sequence[bytes]) -> None:
        """Makes content unfindable, used or not, unless it is proven."""
        for block_hash in block_hashes:
            block = self._by_hash.get(block_hash)
            if block is not None and not block.is_proven:
                for listener in self.listeners:
                    listener.block_distrusted(block.block_id, block_hash)
                self.num_reusable -= block.references == 0
                self._uncache(block)

    def find_cached(self, block_hash: bytes) -> int | None:
        """Returns the block with this content, or None."""
        block = self._by_hash.get(block_hash)
        return None if block is None else block.block_id

    def reset(self) -> None:
        """Empties the prefix cache; used blocks stay used."""
        for block in list(self._by_hash.values()):
            self._uncache(block)
        self.num_reusable = 0
        for listener in self.listeners:
            listener.cache_reset()

    def _evict(self, block: Block) -> None:
        """Removes a reusable block from the prefix cache."""
        assert block.block_hash is not None
        self.evictions.count()
        self.num_reusable -= 1
        for listener in self.listeners:
            listener.block_evicted(block.block_id, block.block_hash)
        self._uncache(block)

    def _uncache(self, block: Block) -> None:
        assert block.block_hash is not None
        del self._by_hash[block.block_hash]
        block.block_hash = None
