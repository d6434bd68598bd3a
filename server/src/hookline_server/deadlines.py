"""Deadlines of whole requests: `X-Request-Timeout` and `--request-timeout`."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from aiohttp import web

from hookline_server.api_error import ApiError

HEADER = "X-Request-Timeout"
LONGEST_SECONDS = 1e6

GRACE_SECONDS = 0.25
"""Head start of the engine, which ends a request that it has by itself."""

TIMED_PATHS = ("/v1/", "/pooling", "/tokenize", "/detokenize", "/invocations")


def timed_out(when: str = "in time") -> ApiError:
    """Returns the error of a request that was not finished in time."""
    message = f"the request was not finished {when}"
    return ApiError(504, message, code="request_timeout")


class Deadline:
    """The deadline of one request, on the event loop's clock.

    Attributes:
        seconds: Time from the request's start.
        at: When it passes.
        has_passed: Whether the request's handler was interrupted for it.
        scope: Interrupts the handler.
    """

    def __init__(self, seconds: float, now: float) -> None:
        self.seconds = seconds
        self.at = now + seconds
        self.has_passed = False
        self.scope = asyncio.timeout(None)

    @property
    def error(self) -> ApiError:
        """The error for the client."""
        return timed_out(f"within {self.seconds:g} s")


class Deadlines:
    """All deadlines of a server, with one timer for the next of them.

    Attributes:
        longest: Seconds that any request may take; None without limit.
    """

    def __init__(self, longest_seconds: float | None = None) -> None:
        """Starts without requests.

        Args:
            longest_seconds: Maximum for requests with and without a header.
        """
        self.longest = longest_seconds
        self._heap: list[tuple[float, int, Deadline]] = []
        self._order = count()
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def seconds(self, request: web.Request) -> float | None:
        """Returns the time that a request has, or None without limit.

        Raises:
            ApiError: 400; that of its header is not a positive number.
        """
        if not request.path.startswith(TIMED_PATHS):
            return None
        requested = requested_seconds(request)
        if requested is None or self.longest is None:
            return requested or self.longest
        return min(requested, self.longest)

    @asynccontextmanager
    async def limited(self, seconds: float) -> AsyncIterator[Deadline]:
        """Interrupts its body after a time.

        Raises:
            TimeoutError: The time has passed.
        """
        deadline = Deadline(seconds, asyncio.get_running_loop().time())
        self._open.add(deadline)
        heappush(self._heap, (deadline.at, next(self._order), deadline))
        self._plan()
        try:
            async with deadline.scope:
                yield deadline
        finally:
            self._open.discard(deadline)
            self._forget_ended()

    def _plan(self) -> None:
        """Sets the timer to the first deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            loop = asyncio.get_running_loop()
            at = self._heap[0][0] + GRACE_SECONDS
            self._timer = loop.call_at(at, self._expire)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] + GRACE_SECONDS <= now:
            _, _, deadline = heappop(self._heap)
            if deadline in self._open:
                deadline.has_passed = True
                deadline.scope.reschedule(now)
        self._plan()

    def _forget_ended(self) -> None:
        """Drops ended requests from the front, and all of them once they are most."""
        while self._heap and self._heap[0][2] not in self._open:
            heappop(self._heap)
        if len(self._heap) > 2 * len(self._open):
            self._heap = [each for each in self._heap if each[2] in self._open]
            self._heap.sort()
        if not self._heap:
            self._plan()


def requested_seconds(request: web.Request) -> float | None:
    """Returns the time in the request's header, or None without the header.

    Raises:
        ApiError: 400; it is not a positive number.
    """
    text = request.headers.get(HEADER)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_SECONDS:
        message = f"{HEADER} must be a number of seconds above 0, at most 1000000"
        raise ApiError(400, message, code="invalid_request", param=HEADER)
    return seconds
