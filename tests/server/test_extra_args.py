"""`vllm_xargs`: from a request to the engine's sampling parameters."""

import io
import json
from typing import Any

import pytest

from hookline.frozen import frozen_json
from hookline.request_limits import EXTRA_ARGS_BYTES
from hookline_testing.scripted_server import FakeEngine, client_of

BODIES: dict[str, dict[str, object]] = {
    "/v1/completions": {"model": "fake", "prompt": "ab"},
    "/v1/chat/completions": {
        "model": "fake",
        "messages": [{"role": "user", "content": "ab"}],
    },
    "/v1/responses": {"model": "fake", "input": "ab"},
}


async def post(engine: FakeEngine, path: str, arguments: object) -> tuple[int, Any]:
    return await post_fields(engine, path, {"vllm_xargs": arguments})


async def post_fields(
    engine: FakeEngine, path: str, fields: dict[str, object]
) -> tuple[int, Any]:
    async with client_of(engine) as client:
        body = {**BODIES[path], **fields}
        response = await client.post(path, data=io.BytesIO(json.dumps(body).encode()))
        return response.status, json.loads(await response.text())


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "arguments", [None, {}, {"size": 3, "on": True, "at": 0.5, "of": ["a", 2]}]
)
async def test_logits_processors_get_their_arguments(
    path: str, arguments: dict[str, object] | None
) -> None:
    """They are the request's `extra_args`, with tuples for lists, or empty."""
    engine = FakeEngine()

    status, _ = await post(engine, path, arguments)

    assert status == 200
    assert engine.streams[0].params.extra_args == frozen_json(arguments or {})


@pytest.mark.parametrize(
    "arguments", [3, ["a"], {"a": {"b": 1}}, {"a": "x" * EXTRA_ARGS_BYTES.most}]
)
async def test_unsuitable_arguments_are_refused(arguments: object) -> None:
    """Objects inside, and too many bytes; the answer names the field."""
    engine = FakeEngine()

    status, answer = await post(engine, "/v1/completions", arguments)

    assert status == 400
    assert "vllm_xargs" in answer["error"]["message"]
    assert engine.streams == []


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("budget", "arguments"),
    [
        (5, {"size": 3, "thinking_token_budget": 5}),
        (0, {"size": 3, "thinking_token_budget": 0}),
        (-1, {"size": 3}),
    ],
)
async def test_a_budget_of_reasoning_is_an_argument(
    path: str, budget: int, arguments: dict[str, object]
) -> None:
    """It stands beside the others; -1 sets none."""
    engine = FakeEngine()
    fields = {"vllm_xargs": {"size": 3}, "thinking_token_budget": budget}

    status, _ = await post_fields(engine, path, fields)

    assert status == 200
    assert engine.streams[0].params.extra_args == arguments


async def test_a_negative_budget_of_reasoning_is_refused() -> None:
    """Other negative numbers than -1 are a 400 that names the field."""
    engine = FakeEngine()

    status, answer = await post_fields(
        engine, "/v1/completions", {"thinking_token_budget": -2}
    )

    assert status == 400
    assert answer["error"]["param"] == "thinking_token_budget"
    assert engine.streams == []
