"""The faulty TCP line injects exactly the configured faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from hookline_faults.spoilt_line import SpoiltLine, Weather

DATA = bytes(range(256)) * 16
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo(asyncio.Protocol):
    """Echoes all bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SpoiltLine, Ends]]:
    """Yields a line, and a connection through it to an echo server."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line = SpoiltLine(("127.0.0.1", port), Random(1))  # noqa: S311 - a test
    async with server, line.listening("127.0.0.2", port):
        reader, writer = await asyncio.open_connection("127.0.0.2", port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        yield line, (reader, writer)
        writer.transport.abort()


@pytest.mark.parametrize("weather", [Weather.FAIR, Weather.SLOW])
async def test_slow_bytes_arrive_in_order(weather: Weather) -> None:
    """Whether the line is slow or not."""
    async with asyncio.timeout(10), connected() as (line, (reader, writer)):
        line.weather = weather
        writer.write(DATA)

        assert await reader.readexactly(len(DATA)) == DATA


async def test_held_bytes_arrive_after_the_partition() -> None:
    """They do not arrive before."""
    async with asyncio.timeout(10), connected() as (line, (reader, writer)):
        line.weather = Weather.HELD
        writer.write(DATA)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)

        line.weather = Weather.FAIR

        assert await reader.readexactly(len(DATA)) == DATA


async def test_a_bit_of_large_pieces_is_flipped() -> None:
    """One in each direction at most; words go through as they are."""
    async with asyncio.timeout(10), connected() as (line, (reader, writer)):
        line.weather = Weather.FLIPPED
        writer.write(DATA)
        found = await reader.readexactly(len(DATA))
        writer.write(b"word")

        assert await reader.readexactly(4) == b"word"
    changed = [a ^ b for a, b in zip(found, DATA, strict=True) if a != b]
    assert 0 < sum(map(int.bit_count, changed)) <= 4


async def test_large_pieces_are_lost() -> None:
    """Small pieces pass."""
    async with asyncio.timeout(10), connected() as (line, (reader, writer)):
        line.weather = Weather.LOST
        writer.write(DATA)
        await asyncio.sleep(0.1)
        writer.write(b"word")

        assert await reader.readexactly(4) == b"word"


async def test_cut_line_stays_cut() -> None:
    """Connections end, and new ones as soon as they are there."""
    async with asyncio.timeout(10), connected() as (line, (reader, writer)):
        line.weather = Weather.CUT
        line.cut()
        assert await reader.read() == b""

        fresh, other = await asyncio.open_connection(*writer.get_extra_info("peername"))

        assert await fresh.read() == b""
        other.close()
