"""Errors on the paths of Anthropic's API: their form, keys, deadlines, disconnects."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline.request import FinishReason
from hookline_server.auth.key_ring import KeyRing
from hookline_server.browser_guard import BrowserGuard
from hookline_server.cors import CorsSettings
from hookline_server.loading import create_loading_app
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODY: dict[str, Any] = {
    "model": "fake",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
PATH = "/v1/messages"


async def asked(
    engine: FakeEngine,
    settings: ServerSettings | None = None,
    *,
    method: str = "POST",
    path: str = PATH,
    **options: Any,
) -> tuple[int, Any]:
    """Returns the status and the body; all errors have Anthropic's form."""
    async with client_of(engine, settings) as client:
        response = await client.request(method, path, **{"json": BODY, **options})
        answer = await response.json()
    if response.status != 200:
        request_id = response.headers["request-id"]
        assert request_id == response.headers["X-Request-Id"]
        assert answer.keys() == {"type", "error", "request_id"}
        assert (answer["type"], answer["request_id"]) == ("error", request_id)
        assert answer["error"].keys() == {"type", "message"}
    return response.status, answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "stolen"}, 401),
        ({"x-api-key": "k"}, 200),
        ({"Authorization": "Bearer k"}, 200),
        ({"Authorization": "Bearer stolen", "x-api-key": "k"}, 401),
    ],
)
async def test_keys(headers: dict[str, str], status: int) -> None:
    """
    `x-api-key` is a key unless there is a bearer token, which prevails.
    """
    engine = FakeEngine()

    found, answer = await asked(engine, ServerSettings(api_key="k"), headers=headers)

    assert found == status
    assert [each.kind for each in engine.rejected] == ["invalid_api_key"] * (
        status == 401
    )
    if status == 401:
        assert answer["error"]["type"] == "authentication_error"
        assert [each.operation for each in engine.rejected_facts] == ["chat"]


async def test_authentication_comes_before_the_body() -> None:
    """
    Nobody without a key learns what is wrong with a request.
    """
    settings = ServerSettings(api_key="k")

    status, _ = await asked(FakeEngine(), settings, json=None, data=b"{")

    assert status == 401


@pytest.mark.parametrize(
    ("options", "status", "kind"),
    [
        ({"json": None, "data": b"{"}, 400, "invalid_request_error"),
        ({"json": {**BODY, "max_tokens": -1}}, 400, "invalid_request_error"),
        ({"json": {**BODY, "model": "claude"}}, 404, "not_found_error"),
        ({"path": "/v1/messages/batches"}, 404, "not_found_error"),
        ({"method": "PUT"}, 405, "invalid_request_error"),
        ({"data": b"x" * 1001, "json": None}, 413, "request_too_large"),
    ],
)
async def test_errors_of_requests(
    options: dict[str, Any], status: int, kind: str
) -> None:
    """
    The type of an error follows from its status.
    """
    settings = ServerSettings(max_body_bytes=1000)

    found, answer = await asked(FakeEngine(), settings, **options)

    assert (found, answer["error"]["type"]) == (status, kind)


async def test_errors_of_the_engine() -> None:
    """
    An engine that is full or dead is told by its type, too, and counted.
    """
    engine = FakeEngine()
    engine.max_open = 0
    status, answer = await asked(engine)
    assert (status, answer["error"]["type"]) == (429, "rate_limit_error")

    engine.fail("broken")
    status, answer = await asked(engine)
    assert (status, answer["error"]["type"]) == (503, "overloaded_error")
    assert [each.kind for each in engine.rejected] == [
        "overloaded",
        "engine_unavailable",
    ]

    status, answer = await asked(FakeEngine(finish_reason=FinishReason.ERROR))
    assert (status, answer["error"]["type"]) == (500, "api_error")


async def test_errors_while_the_model_loads() -> None:
    """
    The server that is not ready yet has the same form.
    """
    app = create_loading_app(KeyRing(), BrowserGuard(("127.0.0.1",), CorsSettings()))
    async with TestClient(TestServer(app)) as client:
        response = await client.post(PATH, json=BODY)
        answer = await response.json()

    assert response.status == 503
    assert "Retry-After" in response.headers
    assert answer["error"] == {
        "type": "overloaded_error",
        "message": "the model is loading",
    }


@pytest.mark.parametrize("is_late", [False, True])
async def test_errors_within_a_stream(is_late: bool) -> None:
    """
    The error is the last event, and nothing says that the message is complete.
    """
    engine = FakeEngine(("ab", "cd"))
    engine.free_steps = 1
    engine.gate.clear()
    headers = {"X-Request-Timeout": "0.1"} if is_late else {}

    async with client_of(engine) as client:
        body = {**BODY, "stream": True}
        response = await client.post(PATH, json=body, headers=headers)
        if not is_late:
            engine.fail("broken")
        text = await response.text()

    *_, last_but_one, last = text.strip().split("\n\n")
    name, data = last.split("\n")
    error = json.loads(data.removeprefix("data: "))
    expected = "timeout_error" if is_late else "overloaded_error"
    assert (name, error["error"]["type"]) == ("event: error", expected)
    assert error["request_id"] == response.headers["request-id"]
    assert last_but_one.startswith("event: content_block_delta\n")
    assert not is_late or engine.streams[0].cause == "timeout"


async def test_leaving_aborts() -> None:
    """
    A request whose client leaves is aborted.
    """
    engine = FakeEngine()
    engine.gate.clear()

    async with client_of(engine) as client:
        url = client.make_url(PATH)
        asking = asyncio.create_task(client.session.post(url, json=BODY))
        await engine.submitted.wait()
        asking.cancel()
        await engine.streams[0].aborted.wait()

    assert engine.streams[0].cause == "client_disconnect"


async def test_routes_in_metrics() -> None:
    """
    Both paths are routes of their own for the observers.
    """
    engine = FakeEngine()
    async with client_of(engine) as client:
        for path in (PATH, f"{PATH}/count_tokens"):
            response = await client.post(path, json=BODY)
            assert response.status == 200

    answered = [each for report in engine.answered for each in report.exchanges]
    assert [each.route for each in answered] == [PATH, f"{PATH}/count_tokens"]
