"""Notes what the prefix cache gains and loses, in order, for those who follow it."""

from hookline.events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent
from hookline.request import Request


class CacheJournal:
    """Since it was last taken. What follows one another is told as one event."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._events: list[CacheEvent] = []

    @property
    def is_empty(self) -> bool:
        return not self._events

    def stored(self, request: Request, index: int) -> None:
        """A full block of a request can be found from now on."""
        hashes, size = request.block_hashes, self._block_size
        tokens = request.token_ids[index * size : (index + 1) * size]
        parent = hashes[index - 1] if index else None
        last = self._events[-1] if self._events else None
        if isinstance(last, BlocksStored) and last.block_hashes[-1] == parent:
            last.block_hashes.append(hashes[index])
            last.token_ids.extend(tokens)
            return
        self._events.append(
            BlocksStored(
                block_hashes=[hashes[index]],
                parent_hash=parent,
                token_ids=list(tokens),
                lora=request.facts.lora,
                cache_salt=request.inner.cache_salt,
            )
        )

    def removed(self, block_hash: bytes) -> None:
        """A block was evicted."""
        last = self._events[-1] if self._events else None
        if isinstance(last, BlocksRemoved):
            last.block_hashes.append(block_hash)
        else:
            self._events.append(BlocksRemoved(block_hashes=[block_hash]))

    def cleared(self) -> None:
        """No block can be found any more, whatever happened before."""
        self._events = [CacheCleared()]

    def take(self) -> list[CacheEvent]:
        """Events since the last call."""
        events, self._events = self._events, []
        return events
