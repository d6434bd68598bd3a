"""What a front end believes that engines have in their prefix caches."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

from hookline.events import BlocksRemoved, BlocksStored, CacheChanges, CacheCleared

MOST_BLOCKS = 1 << 20
"""Blocks remembered of all engines together, at about 220 bytes each."""


class PrefixView:
    """The blocks of each engine by their chained hashes.

    It gains blocks when a request with them is sent, and loses the least recently used
    ones beyond the size of the engine's cache, or its equal part of `MOST_BLOCKS`.
    Where engines report the changes of their caches, it follows these as well.
    """

    def __init__(self, num_blocks: Mapping[int, int]) -> None:
        """Begins with nothing cached; `num_blocks` has the size of each cache."""
        self._sizes = dict(num_blocks)
        self._bounds = self._divided()
        self._cached: dict[int, OrderedDict[bytes, None]] = {
            index: OrderedDict() for index in num_blocks
        }
        # Bit i of a block's number is set if engine i has it: a prompt is looked up
        # once, however many engines there are.
        self._holders: dict[bytes, int] = {}

    def join(self, engine_index: int, num_blocks: int) -> None:
        """Adds an engine with nothing cached, and the size of its cache."""
        if engine_index in self._cached:
            self.clear(engine_index)
        self._cached[engine_index] = OrderedDict()
        self._sizes[engine_index] = num_blocks
        self._bounds = self._divided()

    def leave(self, engine_index: int) -> None:
        """Forgets an engine."""
        self.clear(engine_index)
        del self._cached[engine_index], self._sizes[engine_index]
        self._bounds = self._divided()

    def _divided(self) -> dict[int, int]:
        """Returns how many blocks of each engine are remembered."""
        most = MOST_BLOCKS // max(1, len(self._sizes))
        return {index: min(size, most) for index, size in self._sizes.items()}

    def num_cached(self, hashes: Sequence[bytes]) -> dict[int, int]:
        """Returns how many blocks at the start of a prompt each engine has cached."""
        found = dict.fromkeys(self._cached, 0)
        left = self._holders.get(hashes[0], 0) if hashes else 0
        for count, each in enumerate(hashes[1:], 1):
            if not left:
                return found
            holding = left & self._holders.get(each, 0)
            if holding != left:
                found.update((index, count) for index in _indices(left ^ holding))
                left = holding
        found.update((index, len(hashes)) for index in _indices(left))
        return found

    def add(self, engine_index: int, hashes: Sequence[bytes]) -> None:
        """Adds blocks of one prompt, whose first ones are forgotten last."""
        cached, bit = self._cached[engine_index], 1 << engine_index
        for each in reversed(hashes):
            if each in cached:
                cached.move_to_end(each)
            else:
                cached[each] = None
                self._holders[each] = self._holders.get(each, 0) | bit
        # Little by little, since a view may be far beyond a bound that has shrunk.
        for _ in range(2 * len(hashes)):
            if len(cached) <= self._bounds[engine_index]:
                break
            oldest, _ = cached.popitem(last=False)
            self._release(oldest, bit)

    def change(self, engine_index: int, changes: CacheChanges) -> None:
        """Follows an engine's own report."""
        for event in changes.events:
            match event:
                case BlocksStored():
                    self.add(engine_index, event.block_hashes)
                case BlocksRemoved():
                    self._remove(engine_index, event.block_hashes)
                case CacheCleared():
                    self.clear(engine_index)

    def clear(self, engine_index: int) -> None:
        """Forgets all blocks of an engine."""
        self._remove(engine_index, list(self._cached[engine_index]))

    @property
    def num_blocks(self) -> int:
        """Number of blocks remembered, of all engines together."""
        return sum(map(len, self._cached.values()))

    def _remove(self, engine_index: int, hashes: Sequence[bytes]) -> None:
        cached, bit = self._cached[engine_index], 1 << engine_index
        for each in hashes:
            if each in cached:
                del cached[each]
                self._release(each, bit)

    def _release(self, block_hash: bytes, bit: int) -> None:
        holders = self._holders[block_hash] & ~bit
        if holders:
            self._holders[block_hash] = holders
        else:
            del self._holders[block_hash]


def _indices(bits: int) -> Iterator[int]:
    """Yields the positions of the bits that are set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
