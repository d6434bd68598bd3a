"""Measures how long sampled blocks of the prefix cache stay, lie idle and are reused.

=============  =================================================================
moment         what counts
=============  =================================================================
allocation     an empty or reusable block is taken: a life begins, its first use
use            another request finds the block; while held it is in use
eviction       a findable block is taken for something else: the life is told
=============  =================================================================

A block that was never findable, or was forgotten by a reset, was not evicted: of its
life nothing is told.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from hookline.clock import Clock
from hookline.kv_cache.block_pool import Block, BlockPool
from hookline.stats import BlockEviction

_USES = 4
"""So many last uses of a block are remembered: at most three gaps."""


class MeasuredBlockPool(BlockPool):
    """A block pool that measures a share of its blocks' lives.

    Which lives are measured is drawn at each allocation, whatever the block, so that
    every content has the same chance. A plain `BlockPool` costs nothing of all this.
    """

    def __init__(self, num_blocks: int, *, share: float, clock: Clock) -> None:
        super().__init__(num_blocks)
        self._share = share
        self._clock = clock
        self._draw = Random(0).random  # noqa: S311 - a sample, not a secret
        self._lives: dict[int, _Life] = {}
        self._evictions: list[BlockEviction] = []

    def drain_evictions(self) -> list[BlockEviction]:
        """Evictions since the last call."""
        evictions, self._evictions = self._evictions, []
        return evictions

    def take(self, count: int) -> list[int]:
        taken = super().take(count)
        now = self._clock.now()
        for block_id in taken:
            self._lives.pop(block_id, None)
            if self._draw() < self._share:
                self._lives[block_id] = _Life(now)
        return taken

    def share(self, block_ids: Sequence[int]) -> None:
        super().share(block_ids)
        now = self._clock.now()
        for block_id in block_ids:
            if (life := self._lives.get(block_id)) is not None:
                life.uses.append(now)

    def give_back(self, block_ids: Sequence[int]) -> None:
        super().give_back(block_ids)
        now = self._clock.now()
        for block_id in block_ids:
            if (life := self._lives.get(block_id)) is not None:
                life.last_held = now

    def _evict(self, block: Block) -> None:
        if (life := self._lives.get(block.block_id)) is not None:
            self._evictions.append(life.end(self._clock.now()))
        super()._evict(block)

    def _forget(self, block: Block) -> None:
        self._lives.pop(block.block_id, None)
        super()._forget(block)


class _Life:
    """A block from its allocation on.

    Attributes:
        uses: When requests took it, the last few.
        last_held: When a request last gave it back.
    """

    __slots__ = ("born", "last_held", "uses")

    def __init__(self, now: int) -> None:
        self.born = self.last_held = now
        self.uses = deque((now,), maxlen=_USES)

    def end(self, now: int) -> BlockEviction:
        gaps = tuple(later - earlier for earlier, later in pairwise(self.uses))
        return BlockEviction(now - self.born, now - self.last_held, gaps)
