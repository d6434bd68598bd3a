"""A TCP line between two processes that can be slow, silent, cut or noisy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from random import Random

PIECE_BYTES = 1 << 16
LOOK_SECONDS = 0.01
SLOW_BYTES_A_SECOND = 100_000
NOISY_BYTES = 1024
"""Smaller pieces, which are control messages rather than blocks, are left intact."""


class Weather(StrEnum):
    """The state of a line.

    Attributes:
        FAIR: Bytes pass.
        HELD: Bytes wait for another state: a partition that heals.
        SLOW: Bytes pass slowly.
        FLIPPED: Some large pieces have a flipped bit.
        LOST: Some large pieces are dropped.
        CUT: Connections are closed, new ones at once.
    """

    FAIR = "fair"
    HELD = "held"
    SLOW = "slow"
    FLIPPED = "flipped"
    LOST = "lost"
    CUT = "cut"


class SpoiltLine:
    """Listens at one address and connects to another; used on one event loop.

    Attributes:
        weather: State of the line; can be set at any time.
        noise: Fraction of large pieces that are flipped or dropped.
    """

    def __init__(
        self, target: tuple[str, int], source: Random, *, noise: float = 1.0
    ) -> None:
        self.weather = Weather.FAIR
        self.noise = noise
        self._target = target
        self._source = source

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Forwards connections until the block ends.

        Raises:
            OSError: The address is taken.
        """
        self._ends: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._serve, host, port)
        try:
            yield
        finally:
            server.close()
            self.weather = Weather.CUT
            self._abort()
            await asyncio.gather(*self._serving)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ends, task = {writer}, asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if self.weather is Weather.CUT:
                return
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            ends.add(far_writer)
            self._ends |= ends
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer))
                both.create_task(self._pump(far_reader, writer))
        except* OSError:
            pass  # one end has closed; close the other
        finally:
            self._ends -= ends
            self._serving.discard(task)
            for end in ends:
                end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(PIECE_BYTES):
            await self._pass(data, writer)
        raise ConnectionResetError

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        while self.weather is Weather.HELD:  # noqa: ASYNC110 - set by assignment
            await asyncio.sleep(LOOK_SECONDS)
        is_hit = len(data) >= NOISY_BYTES and self._source.random() < self.noise
        if self.weather is Weather.LOST and is_hit:
            return
        if self.weather is Weather.FLIPPED and is_hit:
            data = self._flipped(data)
        elif self.weather is Weather.SLOW:
            data = await self._trickle(data, writer)
        if self.weather is Weather.CUT:
            self._abort()
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()

    async def _trickle(self, data: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Sends the rest at once when the line is no longer slow."""
        share = int(SLOW_BYTES_A_SECOND * LOOK_SECONDS)
        while data and self.weather is Weather.SLOW:
            writer.write(data[:share])
            data = data[share:]
            await asyncio.sleep(LOOK_SECONDS)
        return data

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self._source.randrange(len(data))] ^= 1 << self._source.randrange(8)
        return bytes(changed)

    def cut(self) -> None:
        """Closes the open connections; the state applies to new ones."""
        self._abort()

    def _abort(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.transport.abort()
