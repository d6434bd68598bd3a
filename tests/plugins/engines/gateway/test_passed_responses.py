"""The framing of answers on the client's connection, which is the gateway's own."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from hookline_faults.scripted_gateway import gateway
from hookline_faults.scripted_instances import Client, FakeInstance

HEAD = b"HTTP/1.1 200 OK\r\n"

# Request, the upstream's answer, and what of it the client sees:
# headers that it has and has not, its body, and whether the connection goes on.
CASES = {
    "length": (
        "GET / HTTP/1.1",
        HEAD + b"Content-Length: 2\r\nServer: its own\r\n\r\nok",
        (["content-length: 2", "server: its own"], ["transfer-encoding"]),
        b"ok",
        True,
    ),
    "chunks": (
        "GET / HTTP/1.1",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        (["transfer-encoding: chunked", "date: "], ["content-length"]),
        b"2\r\nok\r\n0\r\n\r\n",
        True,
    ),
    "old client": (
        "GET / HTTP/1.0",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ([], ["transfer-encoding", "content-length", "keep-alive"]),
        b"ok",
        False,
    ),
    "head": (
        "HEAD / HTTP/1.1",
        HEAD + b"Content-Length: 99\r\n\r\n",
        (["content-length: 99"], ["transfer-encoding"]),
        b"",
        True,
    ),
    "nothing new": (
        "GET / HTTP/1.1",
        b"HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n",
        (["etag: a"], ["transfer-encoding", "content-length"]),
        b"",
        True,
    ),
    "cookies": (
        "GET / HTTP/1.1",
        HEAD + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
        (["set-cookie: a=1", "set-cookie: b=2"], []),
        b"",
        True,
    ),
    "client closes": (
        "GET / HTTP/1.1\r\nConnection: close",
        HEAD + b"Content-Length: 2\r\nKeep-Alive: 5\r\n\r\nok",
        (["connection: close"], ["keep-alive"]),
        b"ok",
        False,
    ),
}


@asynccontextmanager
async def in_front_of(answer: bytes) -> AsyncIterator[Client]:
    """Yields a gateway's client; the upstream answers all but health checks so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fine = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        is_page = any(each in head for each in (b" /health", b" /metrics", b" /v1/"))
        writer.write(fine if is_page else answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        instance = FakeInstance()
        instance.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with gateway(instance) as client:
            yield client


@pytest.mark.parametrize("name", CASES)
async def test_answer_on_the_wire(name: str) -> None:
    """Each client gets it so that it knows where it ends."""
    line, answer, (present, absent), body, goes_on = CASES[name]
    async with in_front_of(answer) as client:
        reader, writer = await asyncio.open_connection(client.host, client.port)
        request = f"{line}\r\nHost: localhost\r\n\r\n".encode()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        got = await reader.readexactly(len(body))
        if goes_on:
            writer.write(request)
            again = await reader.readuntil(b"\r\n")
        else:
            again = await reader.read()
        writer.close()

    assert got == body
    assert _all_in(head, present)
    assert not any(each in head for each in absent)
    assert head.count("x-request-id: ") == 1
    first_line = head.partition("\r\n")[0]
    assert again.decode().strip().lower() == (first_line if goes_on else "")


def _all_in(head: str, lines: Sequence[str]) -> bool:
    return all(f"\r\n{each}" in head for each in lines)
