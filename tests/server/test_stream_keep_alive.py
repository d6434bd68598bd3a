"""Streams that wait: headers, comments and pings until there is output."""

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp

from hookline.exceptions import GrammarError
from hookline_server.context import OPEN_STREAMS
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

COMMENT, PING = b": keep-alive\n\n", b'event: ping\ndata: {"type":"ping"}\n\n'
HELLO = [{"role": "user", "content": "Hi"}]
OFTEN = ServerSettings(sse_keep_alive_interval=0.01)
APIS: list[tuple[str, dict[str, Any], bytes, bytes]] = [
    # path, body, what keeps it alive, what an error's event begins with
    ("/v1/completions", {"prompt": "ab"}, COMMENT, b'data: {"error":'),
    ("/v1/chat/completions", {"messages": HELLO}, COMMENT, b'data: {"error":'),
    ("/v1/responses", {"input": "Hi"}, COMMENT, b"event: response.failed\n"),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 9}, PING, b"event: error\n"),
]


def waiting_engine() -> FakeEngine:
    engine = FakeEngine()
    engine.facts = replace(FACTS, structured_outputs="fake")
    engine.gate.clear()
    return engine


async def begun(
    client: Any, path: str, body: dict[str, Any], mark: bytes
) -> aiohttp.ClientResponse:
    """Asks for a stream, and waits for two signs of life of it."""
    response: aiohttp.ClientResponse = await client.post(
        path, json={**body, "stream": True}
    )
    assert response.status == 200
    for _ in range(2):
        assert await response.content.readexactly(len(mark)) == mark
    return response


async def test_a_stream_that_waits_shows_that_it_lives() -> None:
    """
    Headers and signs of life come without any output, in each API's own form; then the
    output comes as ever, and all signs are counted.
    """
    for path, body, mark, _ in APIS:
        engine = waiting_engine()
        async with client_of(engine, OFTEN) as client:
            response = await begun(client, path, body, mark)
            engine.gate.set()
            rest = await response.read()
            stats = client.app[OPEN_STREAMS].stats()

        assert b"Hell" in rest, path
        assert stats.keep_alives == 2 + rest.count(mark) - (mark is PING)


async def test_an_error_after_the_headers_is_an_event() -> None:
    """
    Its status can no longer be told, but client libraries raise on the event.
    """
    for path, body, mark, expected in APIS:
        for error in ("grammar", "death"):
            engine = waiting_engine()
            async with client_of(engine, OFTEN) as client:
                response = await begun(client, path, body, mark)
                if error == "grammar":
                    engine.refusal = GrammarError("no text matches the grammar")
                    engine.gate.set()
                else:
                    engine.fail("out of memory")
                rest = (await response.read()).replace(mark, b"")

            assert rest.startswith(expected), (path, rest)


async def test_a_deadline_ends_a_stream_that_has_only_waited() -> None:
    """
    By an event after the headers.
    """
    engine = waiting_engine()
    async with client_of(engine, OFTEN) as client:
        response = await client.post(
            "/v1/completions",
            json={"prompt": "ab", "stream": True},
            headers={"X-Request-Timeout": "1"},
        )
        rest = await response.read()

    assert response.status == 200
    assert rest.startswith(COMMENT)
    assert b"timeout" in rest
    assert engine.streams[0].cause == "timeout"


async def test_a_client_that_leaves_while_it_waits_is_noticed() -> None:
    """
    Its request is aborted.
    """
    engine = waiting_engine()
    async with client_of(engine, OFTEN) as client:
        path, body, mark, _ = APIS[0]
        response = await begun(client, path, body, mark)
        response.close()
        await engine.streams[0].aborted.wait()
        sent = client.app[OPEN_STREAMS].stats().keep_alives

    assert engine.streams[0].cause == "client_disconnect"
    assert sent >= 2


async def test_what_is_not_a_waiting_stream_gets_no_sign_of_life() -> None:
    """
    Without streaming, where it is switched off, and where errors come at once, which
    keep their own status.
    """
    engine, silent, refused = waiting_engine(), waiting_engine(), FakeEngine()
    refused.refusal = GrammarError("no text matches the grammar")
    off = ServerSettings(sse_keep_alive_interval=0)
    path, body, mark, _ = APIS[0]
    streamed = {**body, "stream": True}

    async with client_of(engine, OFTEN) as client, client_of(silent, off) as other:
        whole = asyncio.create_task(client.post(path, json=body))
        quiet = asyncio.create_task(other.post(path, json=streamed))
        await silent.submitted.wait()
        await begun(client, path, body, mark)  # meanwhile
        is_quiet = not quiet.done()
        engine.gate.set()
        silent.gate.set()
        answer = await (await whole).json()
        stream = await (await quiet).read()
    async with client_of(refused, OFTEN) as client:
        error = await client.post(path, json=streamed)

    assert answer["choices"][0]["text"] == "Hello"
    assert is_quiet
    assert stream.startswith(b"data: {")
    assert error.status == 400
