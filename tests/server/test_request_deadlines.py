"""Deadlines of whole requests, on a scripted engine."""

import asyncio
import json
import time

import pytest

from hookline.clock import NANOSECONDS
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "a", "max_tokens": 3}
SOON = {"X-Request-Timeout": "0.1"}


async def test_a_late_request_gets_a_504_and_is_aborted() -> None:
    """The engine never answers; its request ends by the cause `timeout`."""
    engine = FakeEngine()
    engine.free_steps = 0
    engine.gate.clear()

    async with client_of(engine) as client:
        began = time.monotonic_ns()
        response = await client.post("/v1/completions", json=BODY, headers=SOON)
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (504, "request_timeout")
    assert error["type"] == "timeout_error"
    assert [stream.cause for stream in engine.streams] == ["timeout"]
    ends_at = engine.streams[0].ends_at
    assert ends_at is not None
    assert began + 0.1 * NANOSECONDS <= ends_at <= time.monotonic_ns()


async def test_a_late_stream_ends_with_an_error_event() -> None:
    """What was sent stays; the last events are the error and `[DONE]`."""
    engine = FakeEngine(script=("ab", "cd"))
    engine.free_steps = 1
    engine.gate.clear()

    async with client_of(engine) as client:
        body = {**BODY, "stream": True}
        response = await client.post("/v1/completions", json=body, headers=SOON)
        events = (await response.text()).strip().split("\n\n")

    assert response.status == 200
    assert json.loads(events[0][6:])["choices"][0]["text"] == "ab"
    assert json.loads(events[-2][6:])["error"]["code"] == "request_timeout"
    assert events[-1] == "data: [DONE]"
    assert [stream.cause for stream in engine.streams] == ["timeout"]


async def test_the_servers_limit_is_the_longest() -> None:
    """A client may ask for less time than `--request-timeout`, not for more."""
    engine = FakeEngine()
    engine.free_steps = 0
    engine.gate.clear()
    settings = ServerSettings(request_timeout=0.1)

    async with client_of(engine, settings=settings) as client:
        more = {"X-Request-Timeout": "1000"}
        response = await client.post("/v1/completions", json=BODY, headers=more)

    assert response.status == 504


async def test_many_deadlines_pass_in_any_order() -> None:
    """Each request ends at its own deadline; one without ends with its answer."""
    engine = FakeEngine()
    engine.free_steps = 0
    engine.gate.clear()

    async with client_of(engine) as client:
        quiet = asyncio.create_task(client.post("/v1/completions", json=BODY))
        late = [
            client.post(
                "/v1/completions", json=BODY, headers={"X-Request-Timeout": str(time)}
            )
            for time in (0.3, 0.1, 0.2, 0.05)
        ]
        statuses = [response.status for response in await asyncio.gather(*late)]
        engine.gate.set()
        statuses.append((await quiet).status)

    assert statuses == [504, 504, 504, 504, 200]


@pytest.mark.parametrize("value", ["", "soon", "0", "-1", "nan", "inf", "1e9"])
async def test_a_time_that_is_none_is_refused(value: str) -> None:
    """The error names the header."""
    async with client_of(FakeEngine()) as client:
        headers = {"X-Request-Timeout": value}
        response = await client.post("/v1/completions", json=BODY, headers=headers)
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, "X-Request-Timeout")
