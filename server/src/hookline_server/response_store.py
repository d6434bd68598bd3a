"""A bounded store of responses in memory, for `previous_response_id` and retrieval.

Each owner has a separate shelf and cannot see the others. When the store is full, the
largest shelf loses its least recently used response.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from aiohttp import web

from hookline_metrics.front_end_parts import ResponseEviction, ResponseStoreStats
from hookline_server.response_store_settings import ResponseStoreSettings

ENTRY_BYTES = 1024
"""Approximate size of an entry without its texts."""

ITEM_BYTES = 256
"""Approximate size of an item without its text."""

Owner = tuple[str, str]
"""Name of the API key and tenant; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response and its input, as JSON.

    Attributes:
        id: The response's id.
        owner: Whose it is.
        previous_id: Id of the response that it continues; None if it is the first.
        response: The response.
        input: List of the input items of its request.
        output: List of its output items, in the form that a conversation has.
        item_ids: Ids of all these items.
    """

    id: str
    owner: Owner
    previous_id: str | None
    response: bytes
    input: bytes
    output: bytes
    item_ids: tuple[str, ...]

    @property
    def size(self) -> int:
        """Its approximate size in memory."""
        texts = len(self.response) + self.num_item_bytes
        return texts + ENTRY_BYTES + ITEM_BYTES * len(self.item_ids)

    @property
    def num_item_bytes(self) -> int:
        """Bytes of its items."""
        return len(self.input) + len(self.output)


class _Shelf:
    """The responses of one owner, the least recently used first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, StoredResponse] = OrderedDict()
        self.holders: dict[str, str] = {}
        self.size = 0

    def put(self, entry: StoredResponse) -> None:
        self.entries[entry.id] = entry
        self.size += entry.size
        self.holders |= dict.fromkeys(entry.item_ids, entry.id)

    def pop(self, response_id: str) -> StoredResponse:
        entry = self.entries.pop(response_id)
        self.size -= entry.size
        for item_id in entry.item_ids:
            if self.holders.get(item_id) == response_id:
                del self.holders[item_id]
        return entry


class ResponseStore:
    """The responses of one server; for one event loop."""

    def __init__(
        self,
        settings: ResponseStoreSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts empty."""
        self._settings = settings
        self._clock = clock
        self._shelves: dict[Owner, _Shelf] = {}
        self._used: OrderedDict[tuple[Owner, str], float] = OrderedDict()
        self._size = 0
        self._evictions: Counter[ResponseEviction] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether responses are kept at all."""
        return self._settings.is_enabled

    def keep(self, entry: StoredResponse) -> None:
        """Adds a response, and drops others if they are too many or too large.

        A response that is larger than the whole store is not kept.
        """
        if not self.is_enabled:
            return
        if entry.size > self._settings.response_store_bytes:
            self._evictions["bytes"] += 1
            return
        self._shelves.setdefault(entry.owner, _Shelf()).put(entry)
        self._used[entry.owner, entry.id] = self._clock()
        self._size += entry.size
        while len(self._used) > self._settings.max_stored_responses:
            self._evict("count", key=lambda shelf: len(shelf.entries))
        while self._size > self._settings.response_store_bytes:
            self._evict("bytes", key=lambda shelf: shelf.size)
        self._plan()

    def find(self, owner: Owner, response_id: str) -> StoredResponse | None:
        """Returns an owner's response and marks it as used; None if there is none."""
        self._expire()
        shelf = self._shelves.get(owner)
        entry = None if shelf is None else shelf.entries.get(response_id)
        if shelf is None or entry is None:
            return None
        shelf.entries.move_to_end(response_id)
        self._used[owner, response_id] = self._clock()
        self._used.move_to_end((owner, response_id))
        return entry

    def chain(self, owner: Owner, response_id: str) -> Iterator[StoredResponse]:
        """Yields a response and those that it continues, newest first.

        It ends early where one is missing; the last one then has a `previous_id`.
        """
        next_id: str | None = response_id
        while next_id is not None:
            entry = self.find(owner, next_id)
            if entry is None:
                return
            yield entry
            next_id = entry.previous_id

    def holder(self, owner: Owner, item_id: str) -> StoredResponse | None:
        """Returns the owner's response that contains an item; None if there is none."""
        shelf = self._shelves.get(owner)
        response_id = None if shelf is None else shelf.holders.get(item_id)
        return None if response_id is None else self.find(owner, response_id)

    def delete(self, owner: Owner, response_id: str) -> bool:
        """Deletes an owner's response; returns False if there is none."""
        if self.find(owner, response_id) is None:
            return False
        self._drop(owner, response_id)
        return True

    def stats(self) -> ResponseStoreStats:
        """Its contents in numbers, and totals since the start."""
        return ResponseStoreStats(
            entries=len(self._used),
            bytes=self._size,
            evictions=tuple(self._evictions.items()),
        )

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Drops everything at the end; for `cleanup_ctx`."""
        yield
        if self._timer is not None:
            self._timer.cancel()
        self._shelves.clear()
        self._used.clear()
        self._size = 0

    def _evict(self, reason: ResponseEviction, *, key: Callable[[_Shelf], int]) -> None:
        owner = max(self._shelves, key=lambda owner: key(self._shelves[owner]))
        self._drop(owner, next(iter(self._shelves[owner].entries)))
        self._evictions[reason] += 1

    def _expire(self) -> None:
        """Drops responses that have expired."""
        latest = self._clock() - self._settings.response_store_seconds
        while self._used and next(iter(self._used.values())) <= latest:
            self._drop(*next(iter(self._used)))
            self._evictions["age"] += 1

    def _drop(self, owner: Owner, response_id: str) -> None:
        shelf = self._shelves[owner]
        self._size -= shelf.pop(response_id).size
        del self._used[owner, response_id]
        if not shelf.entries:
            del self._shelves[owner]

    def _plan(self) -> None:
        """Sets the timer to the expiry of the least recently used response."""
        if self._timer is not None or not self._used:
            return
        age = self._clock() - next(iter(self._used.values()))
        delay = max(self._settings.response_store_seconds - age, 0.0)
        self._timer = asyncio.get_running_loop().call_later(delay, self._expire_later)

    def _expire_later(self) -> None:
        self._timer = None
        self._expire()
        self._plan()
