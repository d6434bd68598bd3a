"""Lines of the log name the trace and the span of their request."""

import logging

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline_server.access_log import QuietAccessLogger
from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT_SPAN = "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{CLIENT_SPAN}-01"}
GOOD: dict[str, object] = {"model": "fake", "prompt": "ab"}


async def line_of(
    engine: FakeEngine,
    caplog: pytest.LogCaptureFixture,
    body: dict[str, object],
    headers: dict[str, str],
) -> dict[str, str]:
    """The ids in the access log's line of one request."""
    caplog.set_level(logging.INFO, logger="aiohttp.access")
    server = TestServer(create_app(engine, ServerSettings()))
    await server.start_server(access_log_class=QuietAccessLogger)
    async with TestClient(server) as client:
        response = await client.post("/v1/completions", json=body, headers=headers)
        await response.read()
    [line] = [each for each in caplog.records if each.name == "aiohttp.access"]
    return {
        name: value
        for name, value in vars(line).items()
        if name in {"trace_id", "span_id"}
    }


@pytest.mark.parametrize(
    "body",
    [GOOD, {**GOOD, "prompt": ["a", "b"]}, {**GOOD, "max_tokens": -1}],
    ids=["one prompt", "two prompts", "rejected"],
)
async def test_line_has_the_span_that_the_front_end_chose(
    caplog: pytest.LogCaptureFixture, body: dict[str, object]
) -> None:
    """Of several prompts it is the first one's; a rejected request has one, too."""
    engine = FakeEngine()
    engine.trace_id = TRACE

    line = await line_of(engine, caplog, body, {})

    facts = [*(each.facts for each in engine.streams), *engine.rejected_facts]
    assert line == {"trace_id": TRACE, "span_id": facts[0].span_id}


async def test_untraced_request_has_its_clients_trace_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no span to point to."""
    assert await line_of(FakeEngine(), caplog, GOOD, PARENT) == {"trace_id": TRACE}
    caplog.clear()
    assert await line_of(FakeEngine(), caplog, GOOD, {}) == {}


async def test_record_of_another_place_is_identified(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Facts without a trace change nothing; the first span stays."""
    engine = FakeEngine()
    engine.trace_id = TRACE
    line = await line_of(engine, caplog, {**GOOD, "prompt": ["a", "b"]}, PARENT)

    first, second = (each.facts for each in engine.streams)
    assert line["span_id"] == first.span_id != second.span_id
    assert msgspec.structs.replace(first, span_id="") == msgspec.structs.replace(
        second, span_id=""
    )
