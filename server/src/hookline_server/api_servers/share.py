"""One API server's view of what all of them have open."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from hookline_server.api_servers.shares import Shares
from hookline_server.background import in_background

BEAT_SECONDS = 0.25


class Share:
    """The place of this server in the table of all; for its event loop."""

    def __init__(self, shares: Shares, place: int) -> None:
        """Takes a place, which no other process writes from now on."""
        self._shares = shares
        self._place = place

    @property
    def is_next(self) -> bool:
        """Whether this server should accept the next connection."""
        return self._shares.has_fewest_connections(self._place)

    @property
    def num_streams(self) -> int:
        """Open streams of all servers."""
        return self._shares.streams

    def connections_changed(self, count: int) -> None:
        """Tells the others how many connections this server has."""
        self._shares.put_connections(self._place, count)

    def streams_changed(self, count: int) -> None:
        """Tells the others how many streams this server has."""
        self._shares.put_streams(self._place, count)

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Shows that the event loop turns; for `cleanup_ctx`."""
        async with in_background(self._beat()):
            yield

    async def _beat(self) -> None:
        while True:
            self._shares.beat(self._place)
            await asyncio.sleep(BEAT_SECONDS)
