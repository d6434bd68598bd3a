"""Bounds how many requests of a batch are open at once."""

import asyncio


class Window:
    """Room for a number of requests, and for the bytes of their bodies.

    A body that exceeds the limit by itself is sent alone.
    """

    def __init__(self, most_requests: int, most_bytes: int) -> None:
        self._most_requests = most_requests
        self._most_bytes = most_bytes
        self._num_open = 0
        self._open_bytes = 0
        self._changed = asyncio.Event()

    async def enter(self, size: int) -> None:
        """Waits until there is room for a request, and takes it."""
        while self._num_open and not self._fits(size):
            self._changed.clear()
            await self._changed.wait()
        self._num_open += 1
        self._open_bytes += size

    def leave(self, size: int) -> None:
        """Releases the room of a request."""
        self._num_open -= 1
        self._open_bytes -= size
        self._changed.set()

    def _fits(self, size: int) -> bool:
        return (
            self._num_open < self._most_requests
            and self._open_bytes + size <= self._most_bytes
        )
