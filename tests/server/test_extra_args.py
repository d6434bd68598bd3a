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
}


async def post(engine: FakeEngine, path: str, arguments: object) -> tuple[int, Any]:
    async with client_of(engine) as client:
        body = {**BODIES[path], "vllm_xargs": arguments}
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
