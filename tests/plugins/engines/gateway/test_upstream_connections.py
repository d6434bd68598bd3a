"""Connections to upstreams: which are used again, and what of their answers counts."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from hookline_gateway.upstreams.asking import Message, UnreachableError, Upstream
from hookline_gateway.upstreams.connections.connection import Connection, Take
from hookline_gateway.upstreams.connections.connections import Connections
from hookline_gateway.upstreams.connections.head import Head
from hookline_gateway.upstreams.instance import Instance

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Scripted:
    """A server that answers the requests of each connection with its next script.

    Attributes:
        connections: Number of connections so far.
        tasks: What serves them.
    """

    def __init__(self, *scripts: Sequence[bytes]) -> None:
        self._scripts = list(scripts)
        self.connections = 0
        self.tasks: list[asyncio.Task[object] | None] = []

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answers one connection, and closes it; after an empty answer it waits."""
        self.tasks.append(asyncio.current_task())
        script = self._scripts[self.connections]
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in script:
                await reader.readuntil(b"\r\n\r\n")
                if not answer:
                    await reader.read()
                writer.write(answer)
        writer.close()


@asynccontextmanager
async def upstream(server: Scripted) -> AsyncIterator[tuple[Upstream, Instance]]:
    """Yields what asks a server."""
    connections = Connections(2.0, 10.0)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        instance = Instance("upstream", f"http://127.0.0.1:{port}")
        yield Upstream(connections), instance
        connections.close()
        for task in server.tasks:
            if task is not None:
                await task


async def asked(asking: Upstream, instance: Instance, method: str = "POST") -> bytes:
    """Returns the body of an answer."""
    message = Message(method=method, path="/", headers=[], body=b"")
    async with asking.ask(instance, message) as answer:
        return await answer.whole(1 << 20)


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (FINE, True),
        (b"HTTP/1.1 103 X\r\nLink: a\r\n\r\n" + FINE, True),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", True),
        (FINE + b"more", False),
        (b"HTTP/1.0" + FINE[8:], False),
        (FINE.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"), False),
    ],
)
async def test_connection_is_kept_if_its_answer_was_all(
    answer: bytes, *, is_kept: bool
) -> None:
    """And if neither side wants to close it."""
    server = Scripted([answer, FINE, b""], [FINE, b""])
    async with upstream(server) as (asking, instance):
        assert await asked(asking, instance) == b"ok"
        assert await asked(asking, instance) == b"ok"

    assert server.connections == (1 if is_kept else 2)


async def test_answer_to_the_end_of_the_connection() -> None:
    """It is whole if the connection is closed in order."""
    server = Scripted([b"HTTP/1.1 200 OK\r\n\r\nabc"])
    async with upstream(server) as (asking, instance):
        assert await asked(asking, instance) == b"abc"


async def test_request_on_a_connection_that_was_just_closed() -> None:
    """It is sent once more only if that changes nothing."""
    server = Scripted([FINE], [FINE, b""])
    async with upstream(server) as (asking, instance):
        await asked(asking, instance)
        assert await asked(asking, instance, "GET") == b"ok"
    assert server.connections == 2


async def test_no_answer_is_an_error() -> None:
    """Which says whether the upstream may have the request."""
    server = Scripted([b"SMTP\r\n\r\n"])
    async with upstream(server) as (asking, instance):
        with pytest.raises(UnreachableError, match="status line") as caught:
            await asked(asking, instance)
    assert caught.value.may_have_it

    with pytest.raises(UnreachableError) as caught:  # nobody listens any more
        await asked(asking, instance)
    assert not caught.value.may_have_it


async def test_early_end_closes_the_connection() -> None:
    """The next request gets another one."""
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nab"
    server = Scripted([begun, b""], [FINE, b""])
    message = Message(method="POST", path="/", headers=[], body=b"")
    async with upstream(server) as (asking, instance):
        async with asking.ask(instance, message) as answer:
            assert answer.first == b"ab"
        assert await asked(asking, instance) == b"ok"
    assert server.connections == 2


class Deaf(asyncio.Transport):
    """A transport that sends nothing."""

    def write(self, data: object) -> None:
        """Forgets it."""

    def abort(self) -> None:
        """Does nothing."""


async def test_first_bytes_that_were_taken_are_an_answer() -> None:
    """
    Whoever takes them gets them in the call in which they come. If the connection ends
    before the waiting task goes on, the answer has broken off: it was not missing.
    """
    connection, taken = Connection(None), list[bytes]()
    connection.connection_made(Deaf())
    connection.ask("POST", b"", b"")

    def take(piece: bytes) -> bool:
        taken.append(piece)
        return True

    def begin(_: Head, first: bytes) -> Take:
        taken.append(first)
        return take

    async def make_room() -> None:
        """There is always room."""

    answering = asyncio.ensure_future(connection.answer(begin))
    await asyncio.sleep(0)
    connection.data_received(CHUNKED + b"1\r\na\r\n")
    assert taken == [b"a"]
    connection.data_received(b"1\r\nb\r\n")
    connection.connection_lost(ConnectionResetError("gone"))
    head, first = await answering

    assert (head.status, first, taken) == (200, b"", [b"a", b"b"])
    with pytest.raises(ConnectionResetError, match="gone"):
        await connection.hand_over(take, make_room)


async def test_first_bytes_that_nobody_takes_are_returned() -> None:
    """As those of an answer with which another instance is tried."""
    connection = Connection(None)
    connection.connection_made(Deaf())
    connection.ask("POST", b"", b"")
    answering = asyncio.ensure_future(connection.answer(lambda *_: None))
    await asyncio.sleep(0)

    connection.data_received(FINE)

    head, first = await answering
    assert (head.status, first) == (200, b"ok")
