"""Gives memory back to the system after large requests and responses.

The C library keeps what was freed between smaller allocations that live on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from hookline_kernels.runtime.allocator import return_freed_memory

TRIM_BYTES = 4 * 2**20
"""Bytes of large bodies after which the heap is trimmed."""

LARGE_BYTES = 256 * 1024
"""Smaller bodies are not counted: their memory is used again."""

TRIM_SECONDS = 1.0
"""Delay, after which the request and its objects are usually gone."""


class HeapTrimmer:
    """Trims the heap in a thread, at most once in `TRIM_SECONDS`; for one event loop.

    Attributes:
        num_trims: How often it has begun to.
    """

    def __init__(self, trim: Callable[[], object] = return_freed_memory) -> None:
        """Takes the function that trims."""
        self.num_trims = 0
        self._trim = trim
        self._has_ended = False
        self._bytes = 0
        self._added_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Future[object] | None = None

    def add(self, num_bytes: int) -> None:
        """Counts a body that was read or written."""
        if self._has_ended or num_bytes < LARGE_BYTES:
            return
        self._bytes += num_bytes
        loop = asyncio.get_running_loop()
        self._added_at = loop.time()
        if self._bytes >= TRIM_BYTES and self._timer is None:
            self._timer = loop.call_later(TRIM_SECONDS, self._start, loop)

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Cancels a trim that has not begun at the end; for `cleanup_ctx`."""
        yield
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._bytes = None, 0
        if loop.time() < self._added_at + TRIM_SECONDS / 2:
            # The latest objects may still be in use.
            self._timer = loop.call_later(TRIM_SECONDS, self._start, loop)
        self.num_trims += 1
        self._trimming = loop.run_in_executor(None, self._trim)


HEAP: web.AppKey[HeapTrimmer] = web.AppKey("hookline_heap", HeapTrimmer)
