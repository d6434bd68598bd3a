"""The interface of listeners to the prefix cache."""

from typing import Protocol

from hookline.request import Request


class CacheListener(Protocol):
    """Follows changes of the prefix cache, in order, on the engine's thread.

    The calls are part of a step: they only note what changed, and raise nothing.
    """

    def block_cached(self, block_id: int, request: Request, index: int) -> None:
        """Called when a block was cached.

        Args:
            block_id: The block.
            request: A request whose tokens it holds; must not be kept.
            index: Position of the block in the request.
        """

    def block_evicted(self, block_id: int, block_hash: bytes) -> None:
        """Called when a cached block was allocated for other content."""

    def cache_reset(self) -> None:
        """Called when the prefix cache was reset: no block is cached any more."""
