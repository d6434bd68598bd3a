"""The block pool: who holds which block, and which block is taken next."""

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.engine.kv_cache.block_pool import BlockPool
from hookline_testing.slow_evictions import SlowEvictions


def cached(pool: BlockPool, *hashes: bytes) -> list[int]:
    """Takes a chain of blocks, one for each hash, and makes them findable."""
    block_ids = pool.allocate(len(hashes))
    for block_id, block_hash in zip(block_ids, hashes, strict=True):
        pool.cache_block(block_id, block_hash)
    return block_ids


def test_new_pool_is_all_empty_blocks() -> None:
    """A new pool has every block free and none reusable."""
    pool = BlockPool(4)

    assert (pool.num_blocks, pool.num_free, pool.num_used) == (4, 4, 0)
    assert (pool.num_reusable, pool.num_references) == (0, 0)


def test_taken_blocks_are_distinct_and_held_once() -> None:
    """Each block is handed out once and has one reference."""
    pool = BlockPool(4)

    taken = pool.allocate(2) + pool.allocate(2)

    assert sorted(taken) == [0, 1, 2, 3]
    assert [pool.references(block_id) for block_id in taken] == [1, 1, 1, 1]
    assert (pool.num_free, pool.num_used, pool.num_references) == (0, 4, 4)


def test_allocating_more_than_is_free_allocates_nothing() -> None:
    """A refused allocation is an error and leaves the pool as it was."""
    pool = BlockPool(3)
    pool.allocate(1)

    with pytest.raises(ValueError, match="3 blocks requested, 2 are free"):
        pool.allocate(3)

    assert (pool.num_free, pool.num_references) == (2, 1)


def test_freeing_twice_is_an_error() -> None:
    """A block without references cannot be freed."""
    pool = BlockPool(2)
    taken = pool.allocate(1)
    pool.free(taken)

    with pytest.raises(ValueError, match="has no reference"):
        pool.free(taken)

    assert pool.num_references == 0


def test_freeing_a_block_never_allocated_is_an_error() -> None:
    """A block that was never held cannot be freed."""
    pool = BlockPool(2)

    with pytest.raises(ValueError, match="block 1 is freed"):
        pool.free([1])


def test_least_recently_used_block_is_allocated_first() -> None:
    """Blocks are allocated again in the order in which they were freed."""
    pool = BlockPool(3)
    first, second, third = pool.allocate(3)

    for block_id in (second, third, first):
        pool.free([block_id])

    assert pool.allocate(3) == [second, third, first]


def test_end_of_a_chain_is_evicted_before_its_beginning() -> None:
    """The last block of a prefix that is freed at once is allocated first."""
    pool = BlockPool(3)
    chain = cached(pool, b"a", b"ab", b"abc")
    pool.free(chain)

    taken = pool.allocate(2)

    assert taken == [chain[2], chain[1]]
    assert pool.find_cached(b"a") == chain[0]
    assert pool.find_cached(b"ab") is None
    assert pool.num_reusable == 1


def test_empty_blocks_that_were_free_longer_go_before_reusable_ones() -> None:
    """A reusable prefix outlives blocks that have been free for longer."""
    pool = BlockPool(3)
    chain = cached(pool, b"a")
    pool.free(chain)

    pool.allocate(2)

    assert pool.find_cached(b"a") == chain[0]


def test_sharing_a_held_block_adds_a_reference() -> None:
    """A shared block is free again only when its last holder gives it back."""
    pool = BlockPool(2)
    taken = pool.allocate(1)

    pool.touch(taken)
    pool.free(taken)
    held_by_one = pool.references(taken[0]), pool.num_free
    pool.free(taken)

    assert held_by_one == (1, 1)
    assert (pool.references(taken[0]), pool.num_free) == (0, 2)


def test_sharing_a_reusable_block_brings_it_back() -> None:
    """A reusable block leaves the free list when it is shared and stays findable."""
    pool = BlockPool(2)
    (block_id,) = cached(pool, b"a")
    pool.free([block_id])
    unheld = pool.num_unreferenced([block_id])

    pool.touch([block_id])

    assert unheld == 1
    assert pool.num_unreferenced([block_id]) == 0
    assert (pool.num_free, pool.num_reusable, pool.references(block_id)) == (1, 0, 1)
    assert pool.find_cached(b"a") == block_id
    assert pool.allocate(1) != [block_id]


def test_use_moves_a_block_to_the_end_of_the_line() -> None:
    """A block that is touched and freed again is allocated last."""
    pool = BlockPool(2)
    (old,) = cached(pool, b"old")
    (new,) = cached(pool, b"new")
    pool.free([old])
    pool.free([new])

    pool.touch([old])
    pool.free([old])

    assert pool.allocate(2) == [new, old]


def test_first_block_entered_under_a_hash_wins() -> None:
    """A second block with the same content is not findable and not reusable."""
    pool = BlockPool(2)
    (first,) = cached(pool, b"a")
    (second,) = cached(pool, b"a")

    pool.free([second])
    reusable_after_second = pool.num_reusable
    pool.free([first])

    assert pool.find_cached(b"a") == first
    assert (reusable_after_second, pool.num_reusable) == (0, 1)


def test_entering_twice_changes_nothing() -> None:
    """A block keeps the hash that it was cached under."""
    pool = BlockPool(1)
    (block_id,) = cached(pool, b"a")

    pool.cache_block(block_id, b"b")

    assert pool.find_cached(b"a") == block_id
    assert pool.find_cached(b"b") is None


def test_taken_again_a_block_is_not_found_any_more() -> None:
    """Eviction forgets the hash, and the next content can be cached."""
    pool = BlockPool(1)
    pool.free(cached(pool, b"a"))

    (block_id,) = cached(pool, b"b")

    assert pool.find_cached(b"a") is None
    assert pool.find_cached(b"b") == block_id


def test_forget_all_leaves_holders_alone() -> None:
    """After forget_all nothing is found, and used blocks are still held."""
    pool = BlockPool(3)
    held = cached(pool, b"held")
    pool.free(cached(pool, b"free"))

    pool.reset()

    assert pool.find_cached(b"held") is None
    assert pool.find_cached(b"free") is None
    assert (pool.num_reusable, pool.num_used, pool.num_free) == (0, 1, 2)
    pool.free(held)
    assert (pool.num_reusable, pool.num_free) == (0, 3)


def test_forgotten_block_can_be_entered_again() -> None:
    """A used block that was forgotten can be found once it is cached again."""
    pool = BlockPool(1)
    (block_id,) = cached(pool, b"a")
    pool.reset()

    pool.cache_block(block_id, b"a")

    assert pool.find_cached(b"a") == block_id


def test_evictions_are_counted_and_timed() -> None:
    """Only allocations that evict take time; a reset evicts nothing."""
    clock = VirtualClock()
    pool = BlockPool(4, clock)
    pool.listeners.append(SlowEvictions(clock, 1))
    pool.free(cached(pool, b"a", b"b", b"c"))
    clock.sleep(7)

    pool.allocate(1)
    empty = pool.evictions.take_work()
    pool.allocate(2)
    two = pool.evictions.take_work()
    pool.reset()
    none = pool.evictions.take_work()

    assert (empty.blocks, empty.nanoseconds) == (0, 0)
    assert (two.blocks, two.nanoseconds) == (2, 2 * NANOSECONDS)
    assert (none.blocks, none.nanoseconds) == (0, 0)
    assert pool.evictions.total == 2
