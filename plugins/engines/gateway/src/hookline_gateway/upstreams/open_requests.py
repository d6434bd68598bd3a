"""The open requests of a proxy, and how it ends."""

import asyncio
from contextlib import suppress

from hookline_server.api_error import ApiError


class OpenRequests:
    """Counts open requests, and waits for their ends; each is a context of it.

    Entering it raises `ApiError`, a 503, once requests are refused.

    Attributes:
        is_leaving: Whether new requests should go elsewhere.
        is_draining: Whether they are refused.
    """

    def __init__(self) -> None:
        self.is_leaving = self.is_draining = False
        self._count = 0
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    def __enter__(self) -> None:
        if self.is_draining:
            raise ApiError(503, "the proxy is shutting down", code="aborted")
        self._count += 1
        self._is_quiet.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._is_quiet.set()

    async def drain(self, seconds: float) -> None:
        """Refuses new requests, and waits a limited time for the open ones."""
        self.is_leaving = self.is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_quiet.wait()
