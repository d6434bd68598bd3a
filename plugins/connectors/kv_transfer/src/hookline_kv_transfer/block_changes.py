"""Prefix cache changes since the last plan, as a KV connector's worker needs them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from hookline.engine.kv_cache.block_pool import BlockPool
from hookline.request import Request
from hookline_kv_transfer.messages import BlockContent

_MOST_AVOIDED = 65_536
"""Number of spoilt blocks that are remembered."""


@dataclass(slots=True)
class BlockChanges:
    """A `CacheListener` for the connector.

    Attributes:
        cached: Blocks that became findable, with their content's hash.
        evicted: Reusable blocks that were allocated for other content.
        spoilt: Hashes of blocks that turned out to hold wrong keys and values.
    """

    cached: list[tuple[int, bytes]] = field(default_factory=list)
    evicted: list[tuple[int, bytes]] = field(default_factory=list)
    spoilt: list[bytes] = field(default_factory=list)
    _avoided: dict[bytes, None] = field(default_factory=dict)

    def block_cached(self, block_id: int, request: Request, index: int) -> None:
        block_hash = request.block_hashes[index]
        self.cached.append((block_id, block_hash))
        self._avoided.pop(block_hash, None)

    def block_evicted(self, block_id: int, block_hash: bytes) -> None:
        self.evicted.append((block_id, block_hash))

    def block_distrusted(self, block_id: int, block_hash: bytes) -> None:
        del block_id
        self.spoilt.append(block_hash)
        self._avoided[block_hash] = None
        if len(self._avoided) > _MOST_AVOIDED:
            del self._avoided[next(iter(self._avoided))]

    def num_good(self, block_hashes: Sequence[bytes]) -> int:
        """Returns how many leading blocks may be loaded.

        Connectors may still have one that was spoilt; it is computed again first.
        """
        if not self._avoided:
            return len(block_hashes)
        good = takewhile(lambda each: each not in self._avoided, block_hashes)
        return sum(1 for _ in good)

    def cache_reset(self) -> None:
        """Forgets evicted blocks, whose content is no longer wanted; see `collect`."""
        self.evicted.clear()

    def collect(
        self, pool: BlockPool
    ) -> tuple[tuple[BlockContent, ...], tuple[BlockContent, ...], tuple[bytes, ...]]:
        """Returns cached, evicted and spoilt blocks since the last call.

        Blocks that were cached and have been evicted since are left out of the first.
        """
        find = pool.find_cached
        cached = tuple(
            [BlockContent(*each) for each in self.cached if find(each[1]) == each[0]]
        )
        evicted = tuple([BlockContent(*each) for each in self.evicted])
        spoilt = tuple(self.spoilt)
        self.cached, self.evicted, self.spoilt = [], [], []
        return cached, evicted, spoilt
