"""Allocates KV blocks to requests: prefix reuse, growth and release."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hookline.clock import Clock
from hookline.engine.kv_cache.block_pool import BlockPool, CacheListener
from hookline.engine.kv_cache.hashing import BlockHasher

if TYPE_CHECKING:  # the cache only reads requests, and passes events on
    from hookline.config.cache import CacheConfig
    from hookline.events import CacheChanges
    from hookline.request import Request


class CacheEvents(CacheListener, Protocol):
    """Keeps the changes of the prefix cache as events; true if there are some."""

    def __bool__(self) -> bool: ...
    def drain(self) -> "CacheChanges | None": ...


class KVCacheManager:
    """Keeps each request's `block_ids` long enough for its computed tokens.

    Attributes:
        pool: The blocks.
        block_size: Number of tokens in a block.
        is_caching: Whether prefixes are kept for later requests.
        events: Changes of the prefix cache, if they are published.
    """

    def __init__(
        self,
        config: "CacheConfig",
        num_blocks: int,
        clock: Clock,
        *,
        events: CacheEvents | None = None,
        pool: BlockPool | None = None,
    ) -> None:
        self.events = events
        self.pool = BlockPool(num_blocks, clock) if pool is None else pool
        self.block_size = config.block_size
        self.is_caching = config.enable_prefix_caching
        if events is not None:
            self.add_listener(events)
        self._hasher = BlockHasher(config.block_size, config.hash_algorithm)

    # -- the prefix cache --------------------------------------------------------

    def find_prefix(self, request: "Request") -> list[int]:
        """Returns the longest run of cached blocks that begins the request.

        At least the last token is left to compute, since its logits are needed.
        """
        if not (self.is_caching and request.reads_prefix_cache):
            return []
        if len(request.token_ids) < self.block_size:  # there is no full block
            return []
        self._update_hashes(request)
        found = []
        usable = (len(request.token_ids) - 1) // self.block_size
        for block_hash in request.block_hashes[:usable]:
            if (block_id := self.pool.find_cached(block_hash)) is None:
                break
            found.append(block_id)
        return found

    def cache_full_blocks(self, request: "Request", num_computed_tokens: int) -> None:
        """Caches the blocks that are full once `num_computed_tokens` are computed.

        May be called as soon as their computation is sure to be part of the next step:
        a step writes all its keys and values before it reads any. A block with a token
        that is still in flight has no hash yet and is cached later; so is one of a
        provisional request.
        """
        end = (request.num_hashed_blocks + 1) * self.block_size
        if num_computed_tokens < end or request.is_provisional or not self.is_caching:
            return
        full = min(num_computed_tokens, len(request.token_ids)) // self.block_size
        self._update_hashes(request)
        first = request.num_hashed_blocks
        added = self.cache_blocks(request, first, request.block_ids[first:full])
        prompt_blocks = request.num_prompt_tokens // self.block_size
        if first < prompt_blocks:
            num_added = sum(index < prompt_blocks for index in added)
            request.num_stored_prompt_tokens += num_added * self.block_size
        request.num_hashed_blocks = full

    def cache_blocks(
        self, request: "Request", first: int, block_ids: Sequence[int]
    ) -> list[int]:
        """Caches blocks that hold a request's content from its block `first` on.

        Returns:
            The positions of those whose content was not cached yet.
        """
        added = []
        for index, block_id in enumerate(block_ids, first):
            if self.pool.cache_block(block_id, request.block_hashes[index]):
                added.append(index)
                for listener in self.pool.listeners:
                    listener.block_cached(block_id, request, index)
        return added

    def cache_loaded_blocks(self, request: "Request", num_blocks: int) -> None:
        """Caches a request's first blocks, which have been filled from elsewhere."""
        first = request.num_hashed_blocks
        self.cache_blocks(request, first, request.block_ids[first:num_blocks])
        request.num_hashed_blocks = max(first, num_blocks)

    def prove(self, request: "Request") -> None:
        """Trusts the keys and values of a request that ends well.

        Its last token's logits were finite, and depend on those of all tokens before.
        """
        known = len(request.token_ids) - 1
        if not request.is_provisional:
            self.pool.prove(request.block_ids[: known // self.block_size])

    def distrust(self, request: "Request") -> None:
        """Uncaches what a request may have spoilt, now and from now on."""
        request.is_provisional = True
        self.pool.distrust(request.block_hashes)

    # -- blocks of requests ------------------------------------------------------

    def allocate(
        self,
        request: "Request",
        prefix: Sequence[int],
        num_new_tokens: int,
        num_external_tokens: int = 0,
    ) -> bool:
        """Gives a request without blocks its prefix and room for the next tokens.

        Refuses (and changes nothing) unless the whole of its present tokens would fit:
        a prompt admitted by its first chunk alone would soon be preempted. External
        tokens come between the prefix and the next ones, and count as computed.
        """
        if self.shortage(request, prefix) > 0:
            return False
        if prefix:
            self.pool.touch(prefix)
        request.block_ids = list(prefix)
        request.num_computed_tokens = len(prefix) * self.block_size
        request.num_hashed_blocks = len(prefix)
        added = self.allocate_more(request, num_external_tokens + num_new_tokens)
        request.num_computed_tokens += num_external_tokens
        return added is not None

    def reserve(
        self, request: "Request", prefix: Sequence[int], num_blocks: int
    ) -> list[int] | None:
        """Allocates blocks after a prefix for a waiting request; touches the prefix.

        The caller frees all of them.

        Returns:
            None, and nothing is changed, unless the whole of the request's present
            tokens would fit.
        """
        if self.shortage(request, prefix) > 0:
            return None
        self.pool.touch(prefix)
        return self.pool.allocate(num_blocks)

    def shortage(self, request: "Request", prefix: Sequence[int]) -> int:
        """Returns how many blocks too few are free for a waiting request.

        It is at most 0 if `allocate` and `reserve` would succeed.
        """
        needed = self._blocks_for(len(request.token_ids)) - len(prefix)
        missing = needed - self.pool.num_free
        return missing + self.pool.num_unreferenced(prefix) if prefix else missing

    def allocate_more(
        self, request: "Request", num_new_tokens: int
    ) -> list[int] | None:
        """Adds the blocks that the next tokens need; None if too few are free."""
        num_tokens = request.num_computed_tokens + num_new_tokens
        if num_tokens <= len(request.block_ids) * self.block_size:
            return []
        missing = self._blocks_for(num_tokens) - len(request.block_ids)
        if missing > self.pool.num_free:
            return None
        added = self.pool.allocate(missing)
        request.block_ids += added
        return added

    def room_for(self, request: "Request") -> int:
        """Returns how many more tokens fit into memory without preempting a request."""
        blocks = len(request.block_ids) + self.pool.num_free
        return blocks * self.block_size - request.num_computed_tokens

    def trim(self, request: "Request") -> None:
        """Frees the blocks that only rejected drafts were written to."""
        kept = self._blocks_for(request.num_computed_tokens)
        self.pool.free_unused(request.block_ids[kept:])
        del request.block_ids[kept:]

    def free(self, request: "Request") -> None:
        """Frees all blocks of a request; full ones stay cached until evicted.

        A step in flight may still write into them. Their next user writes in a later
        step, and a cached block is overwritten by its own tokens or not at all.
        """
        self.cache_full_blocks(request, request.num_computed_tokens)
        self.pool.free(request.block_ids)
        request.block_ids = []
        request.num_hashed_blocks = 0
        request.num_computed_tokens = 0

    # -- followers ---------------------------------------------------------------

    def add_listener(self, listener: CacheListener) -> None:
        """Informs `listener` of changes of the prefix cache from now on."""
        self.pool.listeners.append(listener)

    @property
    def has_news(self) -> bool:
        """Whether there are events or measured evictions to take."""
        return bool(self.pool.measured or self.events)

    # -- helpers -----------------------------------------------------------------

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _update_hashes(self, request: "Request") -> None:
        self._hasher.extend(
            request.block_hashes,
            request.token_ids,
            adapter=request.inner.adapter,
            cache_salt=request.inner.cache_salt,
        )
