"""Servers on one socket take turns to accept, by their numbers of connections."""

import asyncio
import os

from aiohttp import web

from hookline_server.api_servers.share import Share
from hookline_server.api_servers.shares import Shares
from hookline_server.connections.pool import ConnectionPool
from hookline_server.listening import bound_port, listen
from hookline_server.sites import sites

CONNECTIONS = 12


def make_table() -> Shares:
    """A table of two servers that both show signs of life."""
    descriptor = Shares.make(2)
    table = Shares(descriptor, 2)
    os.close(descriptor)
    for place in range(2):
        table.beat(place)
    return table


async def connect(port: int) -> list[asyncio.StreamWriter]:
    return [
        (await asyncio.open_connection("127.0.0.1", port))[1]
        for _ in range(CONNECTIONS)
    ]


async def numbers(pools: list[ConnectionPool]) -> list[int]:
    """Connections of each, once all are accepted."""
    for _ in range(3000):
        found = [pool.stats().open for pool in pools]
        if sum(found) == CONNECTIONS:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"only {found} were accepted")


async def test_connections_are_spread_evenly() -> None:
    """Although one server would accept all of them as fast."""
    table, listening = make_table(), listen("127.0.0.1", 0)
    port, (first, second) = bound_port(listening), (web.Application() for _ in "ab")

    async with (
        sites([(first, listening.dup())], share=Share(table, 0)) as one,
        sites([(second, listening)], share=Share(table, 1)) as other,
    ):
        opened = await connect(port)
        found = await numbers([one, other])
        for each in opened:
            each.close()

    assert found == [CONNECTIONS / 2] * 2


async def test_a_server_that_does_not_accept_is_not_waited_for() -> None:
    """The other one leaves it each connection for a moment only."""
    table, listening = make_table(), listen("127.0.0.1", 0)
    port = bound_port(listening)

    app = web.Application()
    async with sites([(app, listening)], share=Share(table, 1)) as only:
        opened = await connect(port)
        found = await numbers([only])
        for each in opened:
            each.close()

    assert found == [CONNECTIONS]
    assert table.has_fewest_connections(0)
