"""Loads in pieces: the number of blocks loaded in the end."""

import threading
from pathlib import Path

import numpy as np
import pytest

from hookline_kv_transfer import KVLayout
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_kv_transfer.kv_memory import HostLayer
from hookline_kv_transfer.messages import Load
from hookline_shared_storage import BlockReaders, BlockStore, StorageOptions, reading

BLOCKS = 11
LAYOUT = KVLayout(
    fingerprint="ab" * 32,
    num_blocks=BLOCKS,
    block_size=4,
    dtype="float32",
    block_bytes=(30, 20),
)
HASHES = [bytes([number]) * 32 for number in range(BLOCKS)]
CONTENT = np.random.default_rng(1).integers(0, 256, (BLOCKS, 50), np.uint8)


class Place:
    """A folder of blocks, a cache, and a load of all blocks in reverse order."""

    def __init__(self, folder: Path) -> None:
        options = StorageOptions(shared_storage_path=folder)
        self.store = BlockStore(options, LAYOUT)
        for block_hash, content in zip(HASHES, CONTENT, strict=True):
            self.store.write(block_hash, content)
        self.cache = [np.zeros((BLOCKS, size), np.uint8) for size in LAYOUT.block_bytes]
        self.layers = [HostLayer([each]) for each in self.cache]
        self.blocks = KVBlocks(LAYOUT, self.layers)
        self.ids = list(reversed(range(BLOCKS)))
        self.blocks.open_load(
            Load(
                transfer_id=1,
                request_id=1,
                block_ids=tuple(self.ids),
                block_hashes=tuple(HASHES),
                is_async=True,
            )
        )

    def read(self, num_threads: int = 3) -> list[tuple[int, str]]:
        """Returns the reported end of the load."""
        told: list[tuple[int, str]] = []
        readers = BlockReaders(self.store, self.blocks, num_threads, "test")
        for each in readers.submit(1, self.ids, HASHES, lambda *end: told.append(end)):
            each.result(10)
        readers.close()
        return told


@pytest.fixture(params=[1, 2, 100], ids=["block", "two blocks", "all"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Pieces of one block, of two, and of all."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", request.param * LAYOUT.total_bytes)
    return Place(tmp_path)


def test_all_blocks_are_filled(place: Place) -> None:
    """Each block has its content, and the end is reported once."""
    assert place.read() == [(BLOCKS, "")]
    both = np.hstack(place.cache)
    np.testing.assert_array_equal(both[place.ids], CONTENT)


def test_first_failure_counts(place: Place) -> None:
    """Whichever piece ends first, and whatever is wrong behind it."""
    place.store.path_of(HASHES[9]).write_bytes(b"x")
    place.store.path_of(HASHES[4]).unlink()

    assert place.read() == [(4, "missing")]
    both = np.hstack(place.cache)
    np.testing.assert_array_equal(both[place.ids[:4]], CONTENT[:4])


def test_closed_load_reports_nothing(place: Place) -> None:
    """The engine waits for it no more."""
    place.blocks.close(1)

    assert place.read() == []


def test_unforeseen_error_ends_the_load(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait until its deadline."""

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(place.layers[1], "copy_in", fail)

    assert place.read() == [(0, "raised")]


def test_load_behind_a_slow_file_ends(place: Place) -> None:
    """Whichever piece is last reports the end."""
    slow, read = threading.Event(), place.store.read

    def wait(block_hash: bytes, into: Bytes) -> None:
        if block_hash == HASHES[0]:
            slow.wait(0.2)
        read(block_hash, into)

    place.store.read = wait  # type: ignore[method-assign]

    assert place.read(num_threads=2) == [(BLOCKS, "")]
