"""The block pool: who holds which block, and which block is taken next."""

import pytest

from hookline.kv_cache import BlockPool


def entered(pool: BlockPool, *hashes: bytes) -> list[int]:
    """Takes a chain of blocks, one for each hash, and makes them findable."""
    block_ids = pool.take(len(hashes))
    for block_id, block_hash in zip(block_ids, hashes, strict=True):
        pool.enter(block_id, block_hash)
    return block_ids


def test_new_pool_is_all_empty_blocks() -> None:
    """A new pool has every block free and none reusable."""
    pool = BlockPool(4)

    assert (pool.num_blocks, pool.num_free, pool.num_held) == (4, 4, 0)
    assert (pool.num_reusable, pool.num_references) == (0, 0)


def test_taken_blocks_are_distinct_and_held_once() -> None:
    """Each block is handed out once and has one reference."""
    pool = BlockPool(4)

    taken = pool.take(2) + pool.take(2)

    assert sorted(taken) == [0, 1, 2, 3]
    assert [pool.references(block_id) for block_id in taken] == [1, 1, 1, 1]
    assert (pool.num_free, pool.num_held, pool.num_references) == (0, 4, 4)


def test_taking_more_than_is_free_takes_nothing() -> None:
    """A refused take is an error and leaves the pool as it was."""
    pool = BlockPool(3)
    pool.take(1)

    with pytest.raises(ValueError, match="3 blocks wanted, 2 are free"):
        pool.take(3)

    assert (pool.num_free, pool.num_references) == (2, 1)


def test_giving_back_twice_is_an_error() -> None:
    """A block that nobody holds cannot be given back."""
    pool = BlockPool(2)
    taken = pool.take(1)
    pool.give_back(taken)

    with pytest.raises(ValueError, match="nobody holds it"):
        pool.give_back(taken)

    assert pool.num_references == 0


def test_giving_back_a_block_never_taken_is_an_error() -> None:
    """A block that was never held cannot be given back."""
    pool = BlockPool(2)

    with pytest.raises(ValueError, match="block 1 is given back"):
        pool.give_back([1])


def test_least_recently_used_block_is_taken_first() -> None:
    """Blocks are taken again in the order in which they were given back."""
    pool = BlockPool(3)
    first, second, third = pool.take(3)

    for block_id in (second, third, first):
        pool.give_back([block_id])

    assert pool.take(3) == [second, third, first]


def test_end_of_a_chain_is_evicted_before_its_beginning() -> None:
    """Of a chain given back at once the last block is taken first."""
    pool = BlockPool(3)
    chain = entered(pool, b"a", b"ab", b"abc")
    pool.give_back(chain)

    taken = pool.take(2)

    assert taken == [chain[2], chain[1]]
    assert pool.find(b"a") == chain[0]
    assert pool.find(b"ab") is None
    assert pool.num_reusable == 1


def test_empty_blocks_that_were_free_longer_go_before_reusable_ones() -> None:
    """A reusable prefix outlives blocks that have been free for longer."""
    pool = BlockPool(3)
    chain = entered(pool, b"a")
    pool.give_back(chain)

    pool.take(2)

    assert pool.find(b"a") == chain[0]


def test_sharing_a_held_block_adds_a_reference() -> None:
    """A shared block is free again only when its last holder gives it back."""
    pool = BlockPool(2)
    taken = pool.take(1)

    pool.share(taken)
    pool.give_back(taken)
    held_by_one = pool.references(taken[0]), pool.num_free
    pool.give_back(taken)

    assert held_by_one == (1, 1)
    assert (pool.references(taken[0]), pool.num_free) == (0, 2)


def test_sharing_a_reusable_block_brings_it_back() -> None:
    """A reusable block leaves the free list when it is shared and stays findable."""
    pool = BlockPool(2)
    (block_id,) = entered(pool, b"a")
    pool.give_back([block_id])
    unheld = pool.num_unheld([block_id])

    pool.share([block_id])

    assert unheld == 1
    assert pool.num_unheld([block_id]) == 0
    assert (pool.num_free, pool.num_reusable, pool.references(block_id)) == (1, 0, 1)
    assert pool.find(b"a") == block_id
    assert pool.take(1) != [block_id]


def test_use_moves_a_block_to_the_end_of_the_line() -> None:
    """A block that is shared and given back again is taken last."""
    pool = BlockPool(2)
    (old,) = entered(pool, b"old")
    (new,) = entered(pool, b"new")
    pool.give_back([old])
    pool.give_back([new])

    pool.share([old])
    pool.give_back([old])

    assert pool.take(2) == [new, old]


def test_first_block_entered_under_a_hash_wins() -> None:
    """A second block with the same content is not findable and not reusable."""
    pool = BlockPool(2)
    (first,) = entered(pool, b"a")
    (second,) = entered(pool, b"a")

    pool.give_back([second])
    reusable_after_second = pool.num_reusable
    pool.give_back([first])

    assert pool.find(b"a") == first
    assert (reusable_after_second, pool.num_reusable) == (0, 1)


def test_entering_twice_changes_nothing() -> None:
    """A block keeps the hash that it was entered under."""
    pool = BlockPool(1)
    (block_id,) = entered(pool, b"a")

    pool.enter(block_id, b"b")

    assert pool.find(b"a") == block_id
    assert pool.find(b"b") is None


def test_taken_again_a_block_is_not_found_any_more() -> None:
    """Eviction forgets the hash, and the next content can be entered."""
    pool = BlockPool(1)
    pool.give_back(entered(pool, b"a"))

    (block_id,) = entered(pool, b"b")

    assert pool.find(b"a") is None
    assert pool.find(b"b") == block_id


def test_forget_all_leaves_holders_alone() -> None:
    """After forget_all nothing is found, and held blocks are still held."""
    pool = BlockPool(3)
    held = entered(pool, b"held")
    pool.give_back(entered(pool, b"free"))

    pool.forget_all()

    assert pool.find(b"held") is None
    assert pool.find(b"free") is None
    assert (pool.num_reusable, pool.num_held, pool.num_free) == (0, 1, 2)
    pool.give_back(held)
    assert (pool.num_reusable, pool.num_free) == (0, 3)


def test_forgotten_block_can_be_entered_again() -> None:
    """A held block that was forgotten becomes findable when it is entered anew."""
    pool = BlockPool(1)
    (block_id,) = entered(pool, b"a")
    pool.forget_all()

    pool.enter(block_id, b"a")

    assert pool.find(b"a") == block_id
