"""A server that is told to end while requests still come to it."""

import asyncio

import pytest
from aiohttp import ClientSession, web

from hookline_server.listening import Bound, Listening, listen
from hookline_server.serving import serve_engine
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine

WAIT_SECONDS = 30.0
BODY = {"model": "fake", "prompt": "a"}
LONG = 1000.0


class Serving:
    """A server in a task, with a client that opens a connection for each request."""

    def __init__(self, engine: FakeEngine, delay: float) -> None:
        self.stopping = asyncio.Event()
        listening = Listening(Bound((listen("127.0.0.1", 0),)))
        self._root = listening.api.url
        settings = ServerSettings(shutdown_delay=delay, shutdown_timeout=0.0)
        ready = asyncio.Event()
        self.ready = ready.wait()

        def when_ready(_: web.Application) -> None:
            ready.set()

        self.task = asyncio.create_task(
            serve_engine(engine, listening, settings, self.stopping, when_ready)
        )

    async def ask(self) -> tuple[int, str | None]:
        """Returns the status of a completion, and what becomes of its connection."""
        async with (
            ClientSession(self._root) as session,
            session.post("/v1/completions", json=BODY) as response,
        ):
            await response.read()
            return response.status, response.headers.get("Connection")

    async def readiness(self) -> int:
        async with (
            ClientSession(self._root) as session,
            session.get("/health/ready") as response,
        ):
            return response.status

    async def wait_until_not_ready(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while await self.readiness() != 503:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)


async def test_requests_are_served_while_the_server_is_not_ready() -> None:
    """
    Whoever balances load sees it, and connections end after their next response.
    """
    engine = FakeEngine()
    serving = Serving(engine, LONG)
    await serving.ready
    before = await serving.ask()

    serving.stopping.set()
    await serving.wait_until_not_ready()
    during = await serving.ask()
    engine.fail("test")  # ends the delay

    async with asyncio.timeout(WAIT_SECONDS):
        await serving.task
    assert before == (200, None)
    assert during == (200, "close")


@pytest.mark.parametrize("delay", [0.0, LONG])
async def test_a_server_that_cannot_serve_ends_at_once(delay: float) -> None:
    """
    There is nothing to wait for, as without a delay.
    """
    engine = FakeEngine()
    serving = Serving(engine, delay)
    await serving.ready
    if delay:
        engine.fail("test")

    serving.stopping.set()

    async with asyncio.timeout(WAIT_SECONDS):
        await serving.task
