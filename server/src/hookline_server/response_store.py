"""A bounded store of responses in memory, for `previous_response_id` and retrieval.

Each owner sees its own only. Places are shared by those who pay: when the store is
full, the payer with the most loses a response. Within a payer, the tenants that came
first keep what they have, up to limits, and the least recently used response of the
rest goes: a client that claims ever new tenants drops its own newcomers.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from aiohttp import web

from hookline_metrics.front_end_parts import ResponseEviction, ResponseStoreStats
from hookline_server.response_store_settings import ResponseStoreSettings

ENTRY_BYTES = 1024
"""Approximate size of an entry without its texts."""

ITEM_BYTES = 256
"""Approximate size of an item without its text."""

Owner = tuple[str, str]
"""Id of the API key, and tenant; empty if there is none."""

_MOST_SENIORS = 16
"""Tenants of a payer that keep what they have."""

_OF_ONE, _OF_ALL = 1 / 2, 3 / 4
"""Parts of what a payer has: what one such tenant keeps at most, and all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response and its input, as JSON.

    Attributes:
        id: The response's id.
        owner: Whose it is.
        payer: Who pays, whose places it takes.
        previous_id: Id of the response that it continues; None if it is the first.
        response: The response.
        input: List of the input items of its request.
        output: List of its output items, in the form that a conversation has.
        item_ids: Ids of all these items.
    """

    id: str
    owner: Owner
    payer: str
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


Name = tuple[Owner, str]
"""Owner and id of a response."""

Amount = Callable[["_Shelf | _Payer"], int]
"""How many responses, or how many bytes, somebody has."""


class _Shelf:
    """The responses of one tenant of a payer, the least recently used first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[Name, StoredResponse] = OrderedDict()
        self.size = 0

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def oldest(self) -> Name:
        return next(iter(self.entries))


class _Payer:
    """The shelves of all tenants of a payer, those that came first in front."""

    def __init__(self) -> None:
        self.shelves: dict[str, _Shelf] = {}
        self.count = self.size = 0

    def put(self, entry: StoredResponse) -> None:
        shelf = self.shelves.setdefault(entry.owner[1], _Shelf())
        shelf.entries[entry.owner, entry.id] = entry
        for each in (shelf, self):
            each.size += entry.size
        self.count += 1

    def pop(self, entry: StoredResponse) -> None:
        shelf = self.shelves[entry.owner[1]]
        del shelf.entries[entry.owner, entry.id]
        for each in (shelf, self):
            each.size -= entry.size
        self.count -= 1
        if not shelf.entries:
            del self.shelves[entry.owner[1]]

    def use(self, entry: StoredResponse) -> None:
        shelf = self.shelves[entry.owner[1]]
        shelf.entries.move_to_end((entry.owner, entry.id))

    def losers(self, amount: Amount) -> Iterator[_Shelf]:
        """Yields the shelves that can lose a response."""
        whole = amount(self)
        left = whole * _OF_ALL
        for shelf in islice(self.shelves.values(), _MOST_SENIORS):
            kept = min(amount(shelf), whole * _OF_ONE, left)
            left -= kept
            if amount(shelf) > kept:
                yield shelf
        yield from islice(self.shelves.values(), _MOST_SENIORS, None)


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
        self._payers: dict[str, _Payer] = {}
        self._entries: dict[Name, StoredResponse] = {}
        self._holders: dict[Name, str] = {}
        self._used: OrderedDict[Name, float] = OrderedDict()
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
        name = entry.owner, entry.id
        self._payers.setdefault(entry.payer, _Payer()).put(entry)
        self._entries[name] = entry
        for item_id in entry.item_ids:
            self._holders[entry.owner, item_id] = entry.id
        self._used[name] = self._clock()
        self._size += entry.size
        while len(self._used) > self._settings.max_stored_responses:
            self._evict("count", lambda each: each.count)
        while self._size > self._settings.response_store_bytes:
            self._evict("bytes", lambda each: each.size)
        self._plan()

    def find(self, owner: Owner, response_id: str) -> StoredResponse | None:
        """Returns an owner's response and marks it as used; None if there is none."""
        self._expire()
        if (entry := self._entries.get((owner, response_id))) is None:
            return None
        self._payers[entry.payer].use(entry)
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
        response_id = self._holders.get((owner, item_id))
        return None if response_id is None else self.find(owner, response_id)

    def delete(self, owner: Owner, response_id: str) -> bool:
        """Deletes an owner's response; returns False if there is none."""
        if self.find(owner, response_id) is None:
            return False
        self._drop((owner, response_id))
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
        for each in (self._payers, self._entries, self._holders, self._used):
            each.clear()
        self._size = 0

    def _evict(self, reason: ResponseEviction, amount: Amount) -> None:
        payer = max(self._payers.values(), key=amount)
        shelves = payer.losers(amount)
        # The least recently used of all that they would lose.
        self._drop(min((each.oldest for each in shelves), key=self._used.__getitem__))
        self._evictions[reason] += 1

    def _expire(self) -> None:
        """Drops responses that have expired."""
        latest = self._clock() - self._settings.response_store_seconds
        while self._used and next(iter(self._used.values())) <= latest:
            self._drop(next(iter(self._used)))
            self._evictions["age"] += 1

    def _drop(self, name: Name) -> None:
        entry = self._entries.pop(name)
        payer = self._payers[entry.payer]
        payer.pop(entry)
        if not payer.count:
            del self._payers[entry.payer]
        for item_id in entry.item_ids:
            if self._holders.get((entry.owner, item_id)) == entry.id:
                del self._holders[entry.owner, item_id]
        self._size -= entry.size
        del self._used[name]

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
