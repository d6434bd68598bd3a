"""Events of the prefix cache's changes, for observers."""

from typing import cast

from hookline.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanges,
    CacheCleared,
    CacheEvent,
)
from hookline.request import Request


class CacheEventLog:
    """A `CacheListener` that joins consecutive changes of a kind into one event."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._events: list[CacheEvent] = []
        self._sequence = 0

    def __bool__(self) -> bool:
        return bool(self._events)

    def drain(self) -> CacheChanges | None:
        """Returns the changes since the last call; None if there are none."""
        if not self._events:
            return None
        events, self._events = self._events, []
        self._sequence += 1
        return CacheChanges(self._sequence, events)

    def block_cached(self, block_id: int, request: Request, index: int) -> None:
        """Extends the last event if the block follows it in a session, or adds one."""
        del block_id
        hashes, size = request.block_hashes, self._block_size
        tokens = request.token_ids[index * size : (index + 1) * size]
        parent = hashes[index - 1] if index else None
        session = request.facts.session_id
        last = self._events[-1] if self._events else None
        if (
            isinstance(last, BlocksStored)
            and last.block_hashes[-1] == parent
            and last.session_id == session
        ):
            # Nobody else has the event yet.
            cast("list[bytes]", last.block_hashes).append(hashes[index])
            cast("list[int]", last.token_ids).extend(tokens)
            return
        self._events.append(
            BlocksStored(
                block_hashes=[hashes[index]],
                parent_hash=parent,
                token_ids=list(tokens),
                lora=request.facts.lora,
                cache_salt=request.inner.cache_salt,
                session_id=session,
            )
        )

    def block_evicted(self, block_id: int, block_hash: bytes) -> None:
        del block_id
        last = self._events[-1] if self._events else None
        if isinstance(last, BlocksRemoved):
            cast("list[bytes]", last.block_hashes).append(block_hash)
        else:
            self._events.append(BlocksRemoved(block_hashes=[block_hash]))

    block_distrusted = block_evicted

    def cache_reset(self) -> None:
        """Replaces all events: earlier ones do not matter any more."""
        self._events = [CacheCleared()]
