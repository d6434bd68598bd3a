"""Whose each KV block is, from the plans that gave them."""

import heapq
from collections import defaultdict

MOST_CELLS = 1024
MOST_HOLDERS = 8


class BlockMap:
    """The holders of each block; a block that several share is the latest one's.

    Attributes:
        cell_blocks: Number of blocks that are shown as one cell.
    """

    def __init__(self, num_blocks: int) -> None:
        self.cell_blocks = max(1, -(-num_blocks // MOST_CELLS))
        num_cells = -(-num_blocks // self.cell_blocks)
        self._owned: list[defaultdict[int, int]] = [
            defaultdict(int) for _ in range(num_cells)
        ]
        self._holders: dict[int, list[int]] = {}
        self._held: defaultdict[int, list[int]] = defaultdict(list)

    def hold(self, request_id: int, blocks: list[int]) -> None:
        """Notes that a request has got blocks."""
        self._held[request_id] += blocks
        for block in blocks:
            holders = self._holders.setdefault(block, [])
            if holders:
                self._count(block, holders[-1], -1)
            holders.append(request_id)
            self._count(block, request_id, 1)

    def forget(self, request_id: int) -> None:
        """Notes that a request holds none any more."""
        for block in self._held.pop(request_id, ()):
            holders = self._holders[block]
            self._count(block, holders[-1], -1)
            holders.remove(request_id)
            if holders:
                self._count(block, holders[-1], 1)
            else:
                del self._holders[block]

    def held_by(self, request_id: int) -> int:
        """Returns the number of a request's blocks, shared ones included."""
        return len(self._held.get(request_id, ()))

    def holders(self) -> list[int]:
        """Returns the requests that hold most blocks, with their numbers, in turn."""
        largest = heapq.nlargest(
            MOST_HOLDERS, self._held.items(), key=lambda item: len(item[1])
        )
        return [each for owner, blocks in largest for each in (owner, len(blocks))]

    def cells(self) -> list[int]:
        """Returns owners and numbers of cells, in turn; -1 is nobody."""
        runs: list[int] = []
        for owned in self._owned:
            owner = max(owned, key=owned.__getitem__) if owned else -1
            if runs and runs[-2] == owner:
                runs[-1] += 1
            else:
                runs += (owner, 1)
        return runs

    def _count(self, block: int, owner: int, change: int) -> None:
        cell = block // self.cell_blocks
        if cell >= len(self._owned):
            return  # not of this ring's header
        owned = self._owned[cell]
        owned[owner] += change
        if not owned[owner]:
            del owned[owner]
