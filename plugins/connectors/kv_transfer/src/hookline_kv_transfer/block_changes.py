"""Prefix cache changes since the last plan, as a KV connector's worker needs them."""

from dataclasses import dataclass, field

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.request import Request
from hookline_kv_transfer.messages import BlockContent


@dataclass(slots=True)
class BlockChanges:
    """A `CacheListener` for the connector.

    Attributes:
        cached: Blocks that became findable, with their content's hash.
        evicted: Reusable blocks that were allocated for other content.
    """

    cached: list[tuple[int, bytes]] = field(default_factory=list)
    evicted: list[tuple[int, bytes]] = field(default_factory=list)

    def block_cached(self, block_id: int, request: Request, index: int) -> None:
        self.cached.append((block_id, request.block_hashes[index]))

    def block_evicted(self, block_id: int, block_hash: bytes) -> None:
        self.evicted.append((block_id, block_hash))

    def cache_reset(self) -> None:
        """Forgets evicted blocks, whose content is no longer wanted; see `collect`."""
        self.evicted.clear()

    def collect(
        self, pool: BlockPool
    ) -> tuple[tuple[BlockContent, ...], tuple[BlockContent, ...]]:
        """Returns cached and evicted blocks since the last call.

        Blocks that were cached and have been evicted since are left out of the first.
        """
        find = pool.find_cached
        cached = tuple(
            [BlockContent(*each) for each in self.cached if find(each[1]) == each[0]]
        )
        evicted = tuple([BlockContent(*each) for each in self.evicted])
        self.cached, self.evicted = [], []
        return cached, evicted
