"""What a front end believes that engines have in their prefix caches."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile

from hookline.events import BlocksRemoved, BlocksStored, CacheChanges, CacheCleared

MOST_BLOCKS = 1 << 18
"""Blocks remembered of one engine, at about 200 bytes each."""


class PrefixView:
    """The blocks of each engine by their chained hashes.

    It gains blocks when a request with them is sent, and loses the least recently used
    ones beyond the size of the engine's cache. Where engines report the changes of
    their caches, it follows these as well.
    """

    def __init__(self, num_blocks: Mapping[int, int]) -> None:
        """Begins with nothing cached; `num_blocks` has the size of each cache."""
        self._bounds = {
            index: min(size, MOST_BLOCKS) for index, size in num_blocks.items()
        }
        self._cached: dict[int, OrderedDict[bytes, None]] = {
            index: OrderedDict() for index in num_blocks
        }

    def num_cached(self, engine_index: int, hashes: Sequence[bytes]) -> int:
        """Returns how many blocks at the start of a prompt are cached."""
        cached = self._cached[engine_index]
        return sum(1 for _ in takewhile(cached.__contains__, hashes))

    def add(self, engine_index: int, hashes: Sequence[bytes]) -> None:
        """Adds blocks of one prompt, whose first ones are forgotten last."""
        cached, bound = self._cached[engine_index], self._bounds[engine_index]
        for each in reversed(hashes):
            cached[each] = None
            cached.move_to_end(each)
        while len(cached) > bound:
            cached.popitem(last=False)

    def change(self, engine_index: int, changes: CacheChanges) -> None:
        """Follows an engine's own report."""
        for event in changes.events:
            match event:
                case BlocksStored():
                    self.add(engine_index, event.block_hashes)
                case BlocksRemoved():
                    for each in event.block_hashes:
                        self._cached[engine_index].pop(each, None)
                case CacheCleared():
                    self.clear(engine_index)

    def clear(self, engine_index: int) -> None:
        """Forgets all blocks of an engine."""
        self._cached[engine_index].clear()
