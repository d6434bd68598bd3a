"""The blocks of the KV cache: who holds them, which are free, which can be found again.

A block is in exactly one of three states:

=========  ==========  =========  ===========================================
state      references  free list  found by hash
=========  ==========  =========  ===========================================
held       ≥ 1         no         yes, once it is full and entered
reusable   0           yes        yes, until it is taken for something else
empty      0           yes        no
=========  ==========  =========  ===========================================
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookline.kv_cache.journal import CacheJournal


class Block:
    """One block and its links in the free list.

    Attributes:
        references: Requests that hold it.
        block_hash: Under which it can be found; None while it is not full.
    """

    __slots__ = ("block_hash", "block_id", "next", "previous", "references")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.references = 0
        self.block_hash: bytes | None = None
        self.previous: Block | None = None
        self.next: Block | None = None


class FreeList:
    """Free blocks, least recently used first: a doubly linked list, all O(1)."""

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
        block = self._head.next
        assert block is not None
        assert block is not self._tail
        self.remove(block)
        return block


class PoolChanges:
    """What became findable and what was evicted since it was last asked.

    Attributes:
        entered: (block id, hash) of blocks that can be found now.
        evicted: The same of reusable blocks that were taken for something else.
    """

    def __init__(self) -> None:
        self.entered: list[tuple[int, bytes]] = []
        self.evicted: list[tuple[int, bytes]] = []


class BlockPool:
    """A fixed number of blocks with reference counts and a prefix index.

    Invariants: `num_free + num_held == num_blocks`; `num_references` is the sum of all
    reference counts; a block in the free list has none.

    Attributes:
        changes: Are noted if somebody put a list here.
        journal: Is told what is removed, if there is one.
    """

    def __init__(self, num_blocks: int) -> None:
        self.changes: PoolChanges | None = None
        self.journal: CacheJournal | None = None
        self._blocks = [Block(block_id) for block_id in range(num_blocks)]
        self._free = FreeList(self._blocks)
        self._by_hash: dict[bytes, Block] = {}
        self._num_reusable = 0
        self._num_references = 0

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    @property
    def num_free(self) -> int:
        """Blocks that can be taken, reusable ones included."""
        return len(self._free)

    @property
    def num_held(self) -> int:
        return len(self._blocks) - len(self._free)

    @property
    def num_reusable(self) -> int:
        """Free blocks that a later request may still find by hash."""
        return self._num_reusable

    @property
    def num_references(self) -> int:
        return self._num_references

    def references(self, block_id: int) -> int:
        return self._blocks[block_id].references

    def take(self, count: int) -> list[int]:
        """Takes free blocks, the least recently used first, and forgets their hashes.

        Raises:
            ValueError: Fewer are free; nothing was taken.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} are free")
        taken = []
        for _ in range(count):
            block = self._free.pop_oldest()
            if block.block_hash is not None:
                self._evict(block)
            block.references = 1
            taken.append(block.block_id)
        self._num_references += count
        return taken

    def share(self, block_ids: Sequence[int]) -> None:
        """Adds a reference to each; a reusable block leaves the free list."""
        for block_id in block_ids:
            block = self._blocks[block_id]
            if block.references == 0:
                self._free.remove(block)
                self._num_reusable -= block.block_hash is not None
            block.references += 1
        self._num_references += len(block_ids)

    def give_back(self, block_ids: Sequence[int]) -> None:
        """Drops a reference to each; the last of the chain will be evicted first.

        Raises:
            ValueError: A block had no reference.
        """
        for block_id in reversed(block_ids):
            block = self._blocks[block_id]
            if block.references == 0:
                raise ValueError(f"block {block_id} is given back but nobody holds it")
            block.references -= 1
            self._num_references -= 1
            if block.references == 0:
                self._free.append(block)
                self._num_reusable += block.block_hash is not None

    def give_back_unused(self, block_ids: Sequence[int]) -> None:
        """Gives back blocks that one holds and nobody can find, to be taken next.

        So what is reusable is not evicted for blocks that come and go.
        """
        for block_id in reversed(block_ids):
            block = self._blocks[block_id]
            assert block.references == 1
            assert block.block_hash is None
            block.references = 0
            self._free.prepend(block)
        self._num_references -= len(block_ids)

    def num_unheld(self, block_ids: Sequence[int]) -> int:
        """How many of these would leave the free list when shared."""
        return sum(self._blocks[block_id].references == 0 for block_id in block_ids)

    def enter(self, block_id: int, block_hash: bytes) -> bool:
        """Makes a held, full block findable, unless another has the same content."""
        block = self._blocks[block_id]
        if block.block_hash is not None or block_hash in self._by_hash:
            return False
        block.block_hash = block_hash
        self._by_hash[block_hash] = block
        if self.changes is not None:
            self.changes.entered.append((block_id, block_hash))
        return True

    def find(self, block_hash: bytes) -> int | None:
        block = self._by_hash.get(block_hash)
        return None if block is None else block.block_id

    def forget_all(self) -> None:
        """Makes no block findable; held blocks stay held."""
        for block in list(self._by_hash.values()):
            self._forget(block)
        self._num_reusable = 0
        if self.journal is not None:
            self.journal.cleared()

    def _evict(self, block: Block) -> None:
        """A reusable block is taken for something else."""
        self._num_reusable -= 1
        if self.changes is not None and block.block_hash is not None:
            self.changes.evicted.append((block.block_id, block.block_hash))
        if self.journal is not None and block.block_hash is not None:
            self.journal.removed(block.block_hash)
        self._forget(block)

    def _forget(self, block: Block) -> None:
        assert block.block_hash is not None
        del self._by_hash[block.block_hash]
        block.block_hash = None
