"""Blocks that turned out to be wrong are told to connectors, and not loaded."""

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.request import Request
from hookline_kv_transfer.block_changes import BlockChanges
from hookline_testing.simulation import engine_request


def test_a_spoilt_block_is_avoided_until_it_is_computed_again() -> None:
    """It is told once; what precedes it may be loaded all the time."""
    hashes = [b"first", b"spoilt", b"last"]
    request = Request(
        engine_request(1, [1, 2, 3]), sequence=1, queued_at=0, max_tokens=1
    )
    request.block_hashes = hashes
    changes, pool = BlockChanges(), BlockPool(4)
    changes.block_cached(2, request, 1)

    changes.block_distrusted(2, b"spoilt")

    assert changes.num_good(hashes) == 1
    assert changes.collect(pool) == ((), (), (b"spoilt",))
    assert changes.collect(pool) == ((), (), ())
    assert changes.num_good(hashes) == 1
    changes.block_cached(3, request, 1)
    assert changes.num_good(hashes) == 3
