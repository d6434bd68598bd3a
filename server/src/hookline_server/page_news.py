"""Has the loggers told of every answer before one of their pages is made."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from aiohttp import web

from hookline_server.http_meter import HttpMeter

_LOOK_SECONDS = 0.0005
_GRACE_SECONDS = 0.001
"""Time for the event loop to answer, beyond that for which it waits itself."""


class TellsLate(Protocol):
    """What an engine's server, and a gateway, tell the loggers with a delay."""

    @property
    def unconfirmed_ends(self) -> Mapping[int, int]: ...

    def report_changes(self) -> None: ...


class PageNews:
    """What a front end has not told the loggers yet, of answers that clients have read.

    Told late are ends that an engine has yet to confirm, as after a stop string, and
    together: HTTP exchanges, and the server's own counts.
    """

    def __init__(self, engine: TellsLate, meter: HttpMeter | None) -> None:
        """Tells nothing before `join_loop`.

        Args:
            engine: The engine.
            meter: Measures HTTP exchanges; None if no logger wants them.
        """
        self._engine = engine
        self._meter = meter
        self._loop: asyncio.AbstractEventLoop | None = None

    async def lifetime(self, _: web.Application) -> AsyncIterator[None]:
        """Lasts as long as an application; for its `cleanup_ctx`."""
        self.join_loop()
        yield
        self._loop = None

    def join_loop(self) -> None:
        """Tells from now on, on the event loop that runs."""
        self._loop = asyncio.get_running_loop()

    def tell(self, seconds: float) -> float:
        """Has the loggers told within some time; for another thread than the loop's.

        Returns:
            Age of the oldest news that they have not been told; 0 if there is none.
        """
        if (loop := self._loop) is None:
            return 0.0
        telling = asyncio.run_coroutine_threadsafe(self._tell(seconds), loop)
        most = seconds + _GRACE_SECONDS
        try:
            return telling.result(most)
        except TimeoutError:
            telling.cancel()
            return most  # or more: the loop has not come to look

    async def _tell(self, seconds: float) -> float:
        self._engine.report_changes()
        if self._meter is not None:
            self._meter.flush()
        deadline = time.monotonic() + seconds
        waiting = self._engine.unconfirmed_ends
        while waiting and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            there = self._engine.unconfirmed_ends
            waiting = {key: at for key, at in waiting.items() if key in there}
        oldest = min(waiting.values(), default=None)
        return 0.0 if oldest is None else (time.monotonic_ns() - oldest) / 1e9
