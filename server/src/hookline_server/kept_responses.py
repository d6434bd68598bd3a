"""Where a server keeps responses: in itself, or with all servers on its port."""

from collections.abc import AsyncIterator
from typing import Protocol

from aiohttp import web

from hookline_metrics.front_end_parts import ResponseStoreStats
from hookline_server.response_store import Owner, ResponseStore, StoredResponse


class KeptResponses(Protocol):
    """The responses that requests may continue; for one event loop.

    Lookups raise `ApiError` 503 if another process that keeps them does not answer.
    """

    @property
    def is_enabled(self) -> bool:
        """Whether responses are kept at all."""
        ...

    def keep(self, entry: StoredResponse) -> None:
        """Adds a response; lookups that begin later find it."""
        ...

    async def chain(self, owner: Owner, response_id: str) -> list[StoredResponse]:
        """Returns a response and those that it continues, as `ResponseStore.chain`."""
        ...

    async def holder(self, owner: Owner, item_id: str) -> StoredResponse | None:
        """Returns the owner's response that contains an item."""
        ...

    async def delete(self, owner: Owner, response_id: str) -> bool:
        """Deletes an owner's response; returns False if there is none."""
        ...

    def stats(self) -> ResponseStoreStats:
        """What this process keeps, in numbers."""
        ...

    def lifetime(self, app: web.Application) -> AsyncIterator[None]:
        """Drops what this process keeps at the end; for `cleanup_ctx`."""
        ...


class OwnResponses:
    """Responses in a store of this process."""

    def __init__(self, store: ResponseStore) -> None:
        """Takes over a store."""
        self._store = store
        self.keep = store.keep
        self.stats = store.stats
        self.lifetime = store.lifetime

    @property
    def is_enabled(self) -> bool:
        return self._store.is_enabled

    async def chain(self, owner: Owner, response_id: str) -> list[StoredResponse]:
        return list(self._store.chain(owner, response_id))

    async def holder(self, owner: Owner, item_id: str) -> StoredResponse | None:
        return self._store.holder(owner, item_id)

    async def delete(self, owner: Owner, response_id: str) -> bool:
        return self._store.delete(owner, response_id)
