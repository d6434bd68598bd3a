"""The files of all ranks that share a model, for those who only look blocks up."""

import logging

from hookline_kv_transfer import KVLayout
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.store import BlockStore

_log = logging.getLogger(__name__)


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

    def empty(self) -> bool:
        """Removes all parts of all blocks; returns whether that succeeded."""
        try:
            for store in self._stores:
                store.empty()
        except OSError as error:
            _log.warning("the blocks cannot be removed: %s", error)
            return False
        return True
