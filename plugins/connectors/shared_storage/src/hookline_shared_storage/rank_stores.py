"""The files of all ranks that share a model, for those who only look blocks up."""

from hookline_kv_transfer import KVLayout
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.store import BlockStore


class RankStores:
    """Each rank stores its own part of a block, in files of its own layout."""

    def __init__(self, options: StorageOptions, layout: KVLayout) -> None:
        """Creates the folders.

        Args:
            options: Where they are.
            layout: The scheduler's layout.

        Raises:
            OSError: A folder cannot be created.
        """
        self._stores = [BlockStore(options, each) for each in layout.of_each_rank]

    def has(self, block_hash: bytes) -> bool:
        """Whether all parts of a block are stored."""
        return all(store.has(block_hash) for store in self._stores)
