"""What clients and numbers get of upstreams that do not do their part."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from hookline_faults.scripted_gateway import (
    CHAT,
    gateway,
    numbers_of_gateway,
    stream,
    until_number,
    usage,
)
from hookline_faults.scripted_instances import Client, FakeInstance, dead_instance
from hookline_gateway.app import GATEWAY

BODY = {"model": "m", "messages": [], "stream": True}


async def reasons(client: Client) -> dict[str, float]:
    """Returns the numbers of finished requests, by reason."""
    numbers = await numbers_of_gateway(client)
    every = ("stop", "length", "abort", "error", "rejected")
    found = {each: numbers.of("requests_finished_total", reason=each) for each in every}
    return {reason: count for reason, count in found.items() if count}


async def test_stream_that_breaks_ends_with_an_error() -> None:
    """As an event that clients understand; it is not tried elsewhere."""
    breaking, other = FakeInstance(), FakeInstance()
    breaking.pieces, breaking.cut_after = stream("a", "b"), 3
    async with gateway(breaking, other, balance="round_robin") as client:
        body = await (await client.post(CHAT, json=BODY)).text()
        counted = await reasons(client)

    assert '"code":"upstream_broken"' in body
    assert body.endswith("data: [DONE]\n\n")
    assert not other.received
    assert counted == {"error": 1}


async def test_answer_that_breaks_is_cut_off() -> None:
    """The client sees that it is not whole."""
    instance = FakeInstance()
    instance.pieces, instance.cut_after = [b"{", b"}"], 1
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
        assert await reasons(client) == {"error": 1}


@pytest.mark.parametrize("free", [0, 1])
async def test_silent_upstream_is_given_up(free: int) -> None:
    """Before the first byte with a status, after it with an event of the stream."""
    instance = FakeInstance()
    instance.pieces = stream("a")
    instance.tickets = asyncio.Semaphore(free)
    async with gateway(instance, idle_timeout=0.1) as client:
        response = await client.post(CHAT, json=BODY)
        body = await response.text()
        counted = await reasons(client)
        await asyncio.wait_for(instance.left.wait(), 10)

    assert response.status == (200 if free else 504)
    assert '"code":"upstream_timeout"' in body
    assert counted == {"error": 1}


async def test_client_that_leaves_ends_the_upstreams_request() -> None:
    """It counts as aborted, and the upstream sees the connection's end."""
    instance = FakeInstance()
    instance.pieces = stream("a", "b")
    instance.tickets = asyncio.Semaphore(1)
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        await response.content.readuntil(b"\n\n")
        response.close()
        await asyncio.wait_for(instance.left.wait(), 10)
        name = "requests_finished_total"
        numbers = await until_number(client, name, 1, reason="abort")

    assert numbers.of(name) == 1


async def test_others_are_tried_before_the_first_byte() -> None:
    """Of those that refuse, cut off or answer with an error of theirs."""
    cutting, failing, good = FakeInstance(), FakeInstance(), FakeInstance()
    cutting.pieces, cutting.cut_after = stream("a"), 0
    failing.status = 503
    good.pieces = stream("a", used=usage(1, 1))
    instances = (dead_instance(), cutting, failing, good)
    async with gateway(*instances, balance="round_robin", retries=3) as client:
        for _ in range(3):
            body = await (await client.post(CHAT, json=BODY)).read()
            assert body == b"".join(good.pieces)
        counted = await reasons(client)

    assert counted == {"stop": 3}
    assert len(good.received) == 3


async def test_slow_reader_holds_the_upstream_back() -> None:
    """What it does not read is not read from the upstream either."""
    instance = FakeInstance()
    piece = b"data: " + b"x" * 2**20 + b"\n\n"
    instance.pieces = [piece] * 100
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        await response.content.readexactly(10)
        for _ in range(5000):  # turns of the loop on which all of them run
            await asyncio.sleep(0)
        written = instance.written
        rest = await response.read()

    assert written < 50
    assert instance.written == 100
    assert len(rest) == len(piece) * 100 - 10


async def test_gateway_that_ends_refuses_new_requests() -> None:
    """It lets the open ones end, and is no longer ready."""
    instance = FakeInstance()
    instance.pieces = stream("a")
    instance.tickets = asyncio.Semaphore(1)
    async with gateway(instance) as client:
        assert (await client.get("/health")).status == 200
        response = await client.post(CHAT, json=BODY)
        draining = asyncio.create_task(client.app[GATEWAY].open.drain(60))
        await asyncio.sleep(0)
        assert (await client.get("/health")).status == 503
        assert (await client.post(CHAT, json=BODY)).status == 503
        for _ in instance.pieces:
            instance.tickets.release()
        assert (await response.read()) == b"".join(instance.pieces)
        await draining


@pytest.mark.hostile
async def test_numbers_are_those_of_the_upstream() -> None:
    """Of many requests at once: whole ones, refused and broken ones, and those left."""
    instance, broken = FakeInstance(), FakeInstance()
    instance.pieces = stream("a", "b", used=usage(3, 2))
    broken.pieces, broken.cut_after = stream("a", "b"), 3
    instance.models, broken.models = ["whole"], ["broken"]
    instance.gate.clear()
    instance.free_pieces = 2
    async with gateway(instance, broken) as client:
        left = [
            await client.post(CHAT, json={**BODY, "model": "whole"}) for _ in range(8)
        ]
        for response in left:
            response.close()
        await until_number(client, "requests_finished_total", 8, reason="abort")
        instance.gate.set()

        async def ask(model: str) -> None:
            await (await client.post(CHAT, json={**BODY, "model": model})).read()

        models = ["whole", "broken"] * 12
        async with asyncio.TaskGroup() as tasks:
            for model in models:
                tasks.create_task(ask(model))
        numbers = await numbers_of_gateway(client)
        counted = await reasons(client)

    assert counted == {"stop": 12, "abort": 8, "error": 12}
    assert numbers.of("requests_received_total", engine="0") == len(instance.received)
    assert numbers.of("requests_received_total", engine="1") == len(broken.received)
    assert numbers.of("generation_tokens_total") == 12 * 2
    assert numbers.of("prompt_tokens_total") == 12 * 3


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
RAW = {
    "garbage": (b"\x00\x01\x02 garbage\r\n\r\n", 502),
    "nothing": (b"", 502),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", 502),
    "a redirect": (
        b"HTTP/1.1 307 X\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
        307,
    ),
    "half a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\ndata", 200),
    "no chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 502),
    "a short body": (HEAD + b"Content-Length: 99\r\n\r\ndata: {}\n\n", 200),
    "no end": (HEAD + b'\r\ndata: {"choices":[{"text":"a"}]}\n\n', 200),
    "endless head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 99999, 502),
    "an upgrade": (b"HTTP/1.1 101 X\r\nUpgrade: a\r\n\r\n", 502),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 502),
    "two ends": (
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
        502,
    ),
    "too much": (HEAD + b"Content-Length: 16\r\n\r\ndata: [DONE]  \n\nHTTP/1.1", 200),
    "nothing but a head": (HEAD + b"Content-Length: 9\r\n\r\n", 502),
    "hints first": (
        b"HTTP/1.1 103 X\r\nLink: a\r\n\r\n"
        + HEAD
        + b"Content-Length: 16\r\n\r\ndata: [DONE]  \n\n",
        200,
    ),
    "broken events": (HEAD + b"Content-Length: 8\r\n\r\n\x80\xff\n\n\n\n\n\n", 200),
}


@asynccontextmanager
async def raw_upstream(answer: bytes) -> AsyncIterator[FakeInstance]:
    """Yields an upstream that answers each completion with these bytes, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fine = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        writer.write(answer if head.startswith(b"POST") else fine)
        if writer.can_write_eof():
            writer.write_eof()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        instance = FakeInstance()
        port = server.sockets[0].getsockname()[1]
        instance.url = f"http://127.0.0.1:{port}"
        yield instance


@pytest.mark.hostile
@pytest.mark.parametrize("name", RAW)
async def test_whatever_an_upstream_sends(name: str) -> None:
    """The client gets an answer or one clear error, and the numbers have one end."""
    answer, status = RAW[name]
    async with (
        raw_upstream(answer) as instance,
        gateway(instance, idle_timeout=5.0) as client,
    ):
        response = await client.post(CHAT, json=BODY, allow_redirects=False)
        body = await response.read()
        counted = await reasons(client)

    assert response.status == status
    assert sum(counted.values()) == 1
    if status == 502:
        assert b'"code":"upstream_unreachable"' in body
    elif name in {"too much", "hints first"}:
        assert (counted, body) == ({"stop": 1}, b"data: [DONE]  \n\n")
    elif status == 200 and name != "no end":
        assert "error" in counted or name == "broken events"
