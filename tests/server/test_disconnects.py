"""A client that goes away takes its request with it."""

import asyncio

import pytest

from hookline_server.context import OPEN_STREAMS
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "ab"}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_leaving_before_the_first_token_aborts(is_streamed: bool) -> None:
    """
    A request whose client leaves while it waits is aborted with that cause.
    """
    engine = FakeEngine()
    engine.gate.clear()

    async with client_of(engine) as client:
        asking = asyncio.create_task(
            client.session.post(
                client.make_url("/v1/completions"), json={**BODY, "stream": is_streamed}
            )
        )
        await engine.submitted.wait()
        asking.cancel()
        await engine.streams[0].aborted.wait()

    assert engine.streams[0].cause == "client_disconnect"


async def test_leaving_in_the_middle_aborts_every_prompt() -> None:
    """
    A client that closes its stream ends all prompts of the request.
    """
    engine = FakeEngine(["x", "y"])
    engine.gate.clear()
    engine.free_steps = 1

    async with client_of(engine) as client:
        response = await client.post(
            "/v1/completions", json={**BODY, "prompt": ["a", "b"], "stream": True}
        )
        await response.content.readuntil(b"\n\n")
        response.close()
        for stream in engine.streams:
            await stream.aborted.wait()

    assert [each.cause for each in engine.streams] == ["client_disconnect"] * 2


async def test_leaving_between_two_prompts_is_not_a_refusal() -> None:
    """
    A client that leaves while its prompts are taken in is why the first is aborted.
    """
    engine = FakeEngine()
    engine.gate.clear()

    async with client_of(engine) as client:
        asking = asyncio.create_task(
            client.post("/v1/completions", json={**BODY, "prompt": ["a"] * 1000})
        )
        await engine.submitted.wait()
        taken_in = len(engine.streams)
        asking.cancel()
        await engine.streams[0].aborted.wait()

    assert taken_in < 1000
    assert engine.streams[0].cause == "client_disconnect"


async def test_slow_reader_holds_its_own_stream_back() -> None:
    """
    The server stops taking outputs for a client that does not read them.
    """
    pieces = 64
    engine = FakeEngine(["x" * 1_000_000] * pieces)

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json={**BODY, "stream": True})
        await response.content.readexactly(100)
        # Everything that can run has run when the loop has nothing left to do.
        for _ in range(1000):
            await asyncio.sleep(0)
        is_over = engine.streams[0].is_over
        response.close()

    assert not is_over


async def test_streams_cut_at_shutdown_get_an_error() -> None:
    """
    A request aborted by the shutdown ends with an error, not as if it were complete.
    """
    engine = FakeEngine(["x", "y"])
    engine.gate.clear()
    engine.free_steps = 1

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json={**BODY, "stream": True})
        await response.content.readuntil(b"\n\n")
        assert client.app is not None
        client.app[OPEN_STREAMS].abort_all("shutdown")
        rest = await response.read()

    assert b'"code":"aborted"' in rest
    assert engine.streams[0].cause == "shutdown"


async def test_finished_requests_are_forgotten() -> None:
    """
    The server keeps nothing of a request that has ended, and aborts it no more.
    """
    engine = FakeEngine()

    async with client_of(engine) as client:
        await client.post("/v1/completions", json=BODY, raise_for_status=True)
        assert client.app is not None
        assert not client.app[OPEN_STREAMS].count

    assert engine.streams[0].cause is None
