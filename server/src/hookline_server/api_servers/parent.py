"""The life cycle of a parent: engines, API servers, drain, end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from hookline.pages import Routes
from hookline_server.api_servers.fleet import Engines, Fleet
from hookline_server.api_servers.shared_state import SharedState
from hookline_server.auth.key_ring import KeyRing
from hookline_server.background import in_background
from hookline_server.context import key_ring
from hookline_server.engine import ServingEngine
from hookline_server.engine_number import EngineNumber
from hookline_server.listening import Listening
from hookline_server.loading import loading_apps
from hookline_server.page_news import PageNews
from hookline_server.response_store import ResponseStore
from hookline_server.serving import WhenDone, log_failure, started
from hookline_server.settings import ServerSettings
from hookline_server.sites import sites
from hookline_server.stop_signals import FORCED_END_SECONDS, StopSignals

StartOwner = Callable[[], Awaitable[tuple[ServingEngine, Engines]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A process that starts engines and API servers, and serves no HTTP itself.

    Attributes:
        listening: The sockets on which all API servers accept.
        settings: The servers' settings.
        start_owner: Starts the engines.
        say: Shows the banner.
        began: When the command began, monotonic seconds.
        when_done: Called before the engines are closed; it may block.
        last: Called if a signal ends the process while the engines start.
    """

    listening: Listening
    settings: ServerSettings
    start_owner: StartOwner
    say: Callable[[str], None]
    began: float
    when_done: WhenDone = lambda: None
    last: Callable[[], int] = lambda: 0

    async def serve(self) -> None:
        """Serves until a signal stops it; a second signal ends the process."""
        seconds = self.settings.shutdown_seconds
        signals = StopSignals(seconds + FORCED_END_SECONDS)
        status = 1
        keys = key_ring(self.settings)
        try:
            async with _following(keys):
                await self._serve(keys, signals.requested)
            status = 0
        finally:
            signals.ends(status)

    async def _serve(self, keys: KeyRing, stopping: asyncio.Event) -> None:
        owned: list[tuple[ServingEngine, Engines]] = []

        async def start() -> ServingEngine:
            owned.append(await self.start_owner())
            return owned[0][0]

        fleet = Fleet(self.settings, self.listening, self.began)
        try:
            strangers = key_ring(self.settings)  # whose limits it takes away
            loading = loading_apps(self.listening, self.settings, strangers)
            async with sites(loading, self.settings.connection_limits):
                if await started(start, stopping, last=self.last) is None:
                    return
                engine, engines = owned[0]
                store = ResponseStore(self.settings.response_store)
                number = engine.capability(EngineNumber)
                assert number is not None, "the cluster that shares engines has it"
                state = SharedState(store, keys, number)
                engine.report(store.stats)
                news = PageNews(engine, None)
                news.join_loop()
                engine.observers.add_routes(_no_routes, news.tell)
                is_prepared = await _first(fleet.prepare(engines, state), stopping)
            if is_prepared:
                await self._run(fleet, engine, stopping)
                await fleet.drain(self.settings.shutdown_seconds)
        finally:
            await fleet.close()
            if owned:
                await asyncio.to_thread(self.when_done)
                await owned[0][0].close()

    async def _run(
        self, fleet: Fleet, engine: ServingEngine, stopping: asyncio.Event
    ) -> None:
        async with in_background(log_failure(engine)):
            if await _first(fleet.start_accepting(), stopping):
                self.say(fleet.banner)
            await stopping.wait()
        # It has no requests of its own; whoever waits for a change of the number of
        # engines gets an error.
        await engine.drain(0.0)


def _no_routes(logger: str) -> Routes:
    raise AssertionError(f"the pages of {logger} are in the observer process")


async def _first(awaited: Awaitable[None], stopping: asyncio.Event) -> bool:
    """Waits for something, unless a signal comes first; returns whether it happened."""
    task = asyncio.ensure_future(awaited)
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return True
    finally:
        task.cancel()
        stopped.cancel()


@asynccontextmanager
async def _following(keys: KeyRing) -> AsyncIterator[None]:
    async with asynccontextmanager(keys.follow)(web.Application()):
        yield
