"""Measures how long sampled KV blocks stay in the cache, idle in it and are reused.

=============  =================================================================
moment         effect
=============  =================================================================
allocation     a life begins with its first use
touch          another use; while the block is referenced it is not idle
eviction       the life ends and is reported
=============  =================================================================

Blocks that were never cached, or were dropped by a reset, are not reported.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hookline.clock import Clock
from hookline.engine.kv_cache.block_pool import Block, BlockPool
from hookline.stats.step_work import BlockEviction

_USES = 4
"""Number of last uses kept of a block: at most three gaps."""


class MeasuredBlockPool(BlockPool):
    """A block pool that measures a share of its blocks' lives.

    Which lives are measured is drawn at each allocation, whatever the block, so that
    all content has the same chance. A plain `BlockPool` does none of this work.
    """

    def __init__(self, num_blocks: int, *, share: float, clock: Clock) -> None:
        super().__init__(num_blocks, clock)
        self._share = share
        self._clock = clock
        self._draw = Random(0).random  # noqa: S311 - a sample, not a secret
        self._lives: dict[int, _Life] = {}

    def allocate(self, count: int) -> list[int]:
        allocated = super().allocate(count)
        now = self._clock.now()
        for block_id in allocated:
            self._lives.pop(block_id, None)
            if self._draw() < self._share:
                self._lives[block_id] = _Life(now)
        return allocated

    def touch(self, block_ids: Sequence[int]) -> None:
        super().touch(block_ids)
        now = self._clock.now()
        for block_id in block_ids:
            if (life := self._lives.get(block_id)) is not None:
                life.uses.append(now)

    def free(self, block_ids: Sequence[int]) -> None:
        super().free(block_ids)
        now = self._clock.now()
        for block_id in block_ids:
            if (life := self._lives.get(block_id)) is not None:
                life.last_used = now

    def _evict(self, block: Block) -> None:
        if (life := self._lives.get(block.block_id)) is not None:
            self.measured.append(life.eviction(self._clock.now()))
        super()._evict(block)

    def _uncache(self, block: Block) -> None:
        self._lives.pop(block.block_id, None)
        super()._uncache(block)


class _Life:
    """A block since its allocation.

    Attributes:
        uses: Times of the last allocations and touches, ns.
        last_used: Time when its last reference was dropped, ns.
    """

    __slots__ = ("born", "last_used", "uses")

    def __init__(self, now: int) -> None:
        self.born = self.last_used = now
        self.uses = deque((now,), maxlen=_USES)

    def eviction(self, now: int) -> BlockEviction:
        gaps = tuple(later - earlier for earlier, later in pairwise(self.uses))
        return BlockEviction(now - self.born, now - self.last_used, gaps)
