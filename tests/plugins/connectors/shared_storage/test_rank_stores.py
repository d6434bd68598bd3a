"""Blocks whose parts several ranks have stored."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from hookline_kv_transfer import KVLayout
from hookline_shared_storage import BlockStore, RankStores, StorageOptions

LAYOUT = KVLayout(
    fingerprint="first",
    num_blocks=4,
    block_size=4,
    dtype="float32",
    block_bytes=(32, 32),
)
OTHER = replace(LAYOUT, fingerprint="other", block_bytes=(32,))
HASH = b"\x01" * 8


def test_a_block_is_there_once_all_ranks_have_stored_it(tmp_path: Path) -> None:
    """A rank may be late, or have lost what others still have."""
    options = StorageOptions(shared_storage_path=tmp_path)
    stores = RankStores(options, KVLayout.of_ranks([LAYOUT, OTHER]))
    found = [stores.has(HASH)]

    for each in (LAYOUT, OTHER):
        content = np.zeros(each.total_bytes, np.uint8)
        BlockStore(options, each).write(HASH, content)
        found.append(stores.has(HASH))

    assert found == [False, False, True]
    assert RankStores(options, OTHER).has(HASH)
