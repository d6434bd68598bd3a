"""What a drain does to connections, over real sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from hookline_server.connections.pool import ConnectionPool
from hookline_server.listening import bound_port, listen
from hookline_server.sites import sites

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WAIT_SECONDS = 30.0

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@pytest.fixture
async def served() -> AsyncIterator[tuple[ConnectionPool, int]]:
    app = web.Application()
    app.router.add_get("/", _hello)
    listening = listen("127.0.0.1", 0)
    port = bound_port(listening)
    async with sites([(app, listening)]) as pool:
        yield pool, port


async def _open(pool: ConnectionPool, port: int) -> Client:
    before = pool.stats().open
    client = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(WAIT_SECONDS):
        while pool.stats().open == before:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
    return client


async def _ask(client: Client) -> bytes:
    reader, writer = client
    writer.write(ASK)
    async with asyncio.timeout(WAIT_SECONDS):
        return await reader.readuntil(b"hello")


async def _rest(client: Client) -> bytes:
    reader, writer = client
    async with asyncio.timeout(WAIT_SECONDS):
        rest = await reader.read()
    writer.close()
    return rest


async def test_a_drain_ends_connections_between_requests(
    served: tuple[ConnectionPool, int],
) -> None:
    """
    Kept connections that wait for a next request end at once.
    """
    pool, port = served
    client = await _open(pool, port)
    await _ask(client)

    pool.drain()

    assert await _rest(client) == b""


@pytest.mark.parametrize("num_sent", [0, 5])
async def test_a_new_connection_is_answered_while_draining(
    served: tuple[ConnectionPool, int], num_sent: int
) -> None:
    """
    A client that connected before the drain gets its one answer, and no reset.
    """
    pool, port = served
    client = await _open(pool, port)
    client[1].write(ASK[:num_sent])
    await asyncio.sleep(0.01)

    pool.drain()
    client[1].write(ASK[num_sent:])
    answer = await _rest(client)

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"hello")
