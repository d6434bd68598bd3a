"""Gives requests their blocks: prefix reuse, growth, release; knows no model."""

from collections.abc import Sequence

from hookline.clock import Clock
from hookline.config import CacheConfig
from hookline.events import CacheEvent
from hookline.kv_cache.block_pool import BlockPool
from hookline.kv_cache.hashing import BlockHasher
from hookline.kv_cache.journal import CacheJournal
from hookline.kv_cache.residency import MeasuredBlockPool
from hookline.request import Request
from hookline.stats import BlockEviction


class KVCacheManager:
    """Keeps each request's `block_ids` long enough for its computed tokens."""

    def __init__(self, config: CacheConfig, num_blocks: int, clock: Clock) -> None:
        self._measured: MeasuredBlockPool | None = None
        self._journal: CacheJournal | None = None
        if config.residency_sample > 0:
            self._measured = MeasuredBlockPool(
                num_blocks, share=config.residency_sample, clock=clock
            )
        self.pool = self._measured or BlockPool(num_blocks)
        self.block_size = config.block_size
        self._is_caching = config.enable_prefix_caching
        self._hasher = BlockHasher(config.block_size, config.hash_algorithm)

    def can_reuse(self, request: Request) -> bool:
        """Whether the prefix cache is looked at for this request.

        One that wants prompt logprobs needs every position computed.
        """
        return self._is_caching and request.params.prompt_logprobs is None

    def find_prefix(self, request: Request) -> list[int]:
        """The longest run of cached blocks that begins the request.

        At least the last token is left to compute, since its logits are wanted.
        """
        if not self.can_reuse(request):
            return []
        self._update_hashes(request)
        found = []
        usable = (request.num_tokens - 1) // self.block_size
        for block_hash in request.block_hashes[:usable]:
            if (block_id := self.pool.find(block_hash)) is None:
                break
            found.append(block_id)
        return found

    def admit(
        self,
        request: Request,
        prefix: Sequence[int],
        num_new_tokens: int,
        num_external_tokens: int = 0,
    ) -> bool:
        """Gives a request without blocks its prefix and room for the next tokens.

        Refuses (and changes nothing) unless the whole of its present tokens would fit:
        a prompt admitted by its first chunk alone would soon be preempted. External
        tokens come between the prefix and the next ones, and count as computed.
        """
        if not self._would_fit(request, prefix):
            return False
        self.pool.share(prefix)
        request.block_ids = list(prefix)
        request.num_computed_tokens = len(prefix) * self.block_size
        request.num_hashed_blocks = len(prefix)
        taken = self.grow(request, num_external_tokens + num_new_tokens)
        request.num_computed_tokens += num_external_tokens
        return taken is not None

    def set_aside(
        self, request: Request, prefix: Sequence[int], num_blocks: int
    ) -> list[int] | None:
        """Takes blocks behind a prefix for a request that waits, and shares the prefix.

        Whoever asked for them gives all of them back. None, and nothing is changed,
        unless the whole of the request's present tokens would fit.
        """
        if not self._would_fit(request, prefix):
            return None
        self.pool.share(prefix)
        return self.pool.take(num_blocks)

    def _would_fit(self, request: Request, prefix: Sequence[int]) -> bool:
        needed = self._blocks_for(request.num_tokens) - len(prefix)
        return needed <= self.pool.num_free - self.pool.num_unheld(prefix)

    def grow(self, request: Request, num_new_tokens: int) -> list[int] | None:
        """Adds the blocks that the next tokens need; None if too few are free."""
        wanted = self._blocks_for(request.num_computed_tokens + num_new_tokens)
        missing = wanted - len(request.block_ids)
        if missing <= 0:
            return []
        if missing > self.pool.num_free:
            return None
        taken = self.pool.take(missing)
        request.block_ids += taken
        return taken

    def room_for(self, request: Request) -> int:
        """Tokens that could follow its computed ones without taking any from others."""
        blocks = len(request.block_ids) + self.pool.num_free
        return blocks * self.block_size - request.num_computed_tokens

    def trim(self, request: Request) -> None:
        """Gives back the blocks that only refused drafts were written to."""
        kept = self._blocks_for(request.num_computed_tokens)
        self.pool.give_back_unused(request.block_ids[kept:])
        del request.block_ids[kept:]

    def enter_full_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Makes the blocks findable that are full once these tokens are computed.

        May be called as soon as their computation is sure to be part of the next step:
        a step writes all its keys and values before it reads any. A block with a token
        that is still under way has no hash yet, and is entered later; so is one that
        rests on a load whose end is not known.
        """
        if request.unproven is not None:
            return
        full = min(num_computed_tokens, request.num_tokens) // self.block_size
        if not self._is_caching or full <= request.num_hashed_blocks:
            return
        self._update_hashes(request)
        first = request.num_hashed_blocks
        self.enter_blocks(request, first, request.block_ids[first:full])
        request.num_hashed_blocks = full

    def enter_blocks(
        self, request: Request, first: int, block_ids: Sequence[int]
    ) -> None:
        """Makes blocks findable that have what a request has from its `first` on."""
        for index, block_id in enumerate(block_ids, first):
            is_new = self.pool.enter(block_id, request.block_hashes[index])
            if is_new and self._journal is not None:
                self._journal.stored(request, index)

    def prove(self, request: Request, num_blocks: int) -> None:
        """Makes a request's first blocks findable, whatever the rest is."""
        first = request.num_hashed_blocks
        self.enter_blocks(request, first, request.block_ids[first:num_blocks])
        request.num_hashed_blocks = max(first, num_blocks)

    def release(self, request: Request) -> None:
        """Gives all blocks back; full ones stay findable until they are evicted.

        A step under way may still write into them. Whoever gets them next writes in a
        later step, and what is findable is written with its own tokens or not at all.
        """
        self.enter_full_blocks(request, request.num_computed_tokens)
        self.pool.give_back(request.block_ids)
        request.block_ids = []
        request.num_hashed_blocks = 0
        request.num_computed_tokens = 0

    def reset_prefix_cache(self) -> None:
        """Forgets every reusable prefix; running requests keep what they hold."""
        self.pool.forget_all()

    def follow(self) -> None:
        """Has changes of the prefix cache noted from now on."""
        self.pool.journal = self._journal = CacheJournal(self.block_size)

    @property
    def has_changes(self) -> bool:
        """Whether some are noted."""
        return self._journal is not None and not self._journal.is_empty

    def take_changes(self) -> list[CacheEvent]:
        """Of the prefix cache since the last call; none if it is not followed."""
        return [] if self._journal is None else self._journal.take()

    def drain_evictions(self) -> list[BlockEviction]:
        """Evictions of measured blocks since the last call."""
        return [] if self._measured is None else self._measured.drain_evictions()

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _update_hashes(self, request: Request) -> None:
        self._hasher.extend(
            request.block_hashes,
            request.token_ids,
            lora=request.facts.lora,
            cache_salt=request.inner.cache_salt,
        )
