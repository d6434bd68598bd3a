"""`kv_transfer_params`: from a request to the engine, and from its end back."""

import io
import json
from typing import Any

import pytest

from hookline.request_limits import TRANSFER_BYTES, TRANSFER_DEPTH
from hookline_testing.scripted_server import FakeEngine, client_of

BODIES: dict[str, dict[str, object]] = {
    "/v1/completions": {"model": "fake", "prompt": "ab"},
    "/v1/chat/completions": {
        "model": "fake",
        "messages": [{"role": "user", "content": "ab"}],
    },
}
PARAMS = {"do_remote_decode": True, "remote_block_ids": [1, 2], "remote_host": None}
TOLD = {"remote_engine_id": "p", "remote_block_ids": [[3], []], "remote_port": 5}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


async def post(
    engine: FakeEngine, path: str, **fields: object
) -> tuple[int, list[Any]]:
    """The status, and all messages of the answer, streamed or not."""
    async with client_of(engine) as client:
        body = io.BytesIO(json.dumps({**BODIES[path], **fields}).encode())
        response = await client.post(path, data=body)
        text = await response.text()
    if "stream" not in fields or response.status != 200:
        return response.status, [json.loads(text)]
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return 200, [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("path", BODIES)
async def test_engine_gets_the_clients_parameters(path: str) -> None:
    """The server passes them on unchanged and uninterpreted."""
    engine = FakeEngine()

    await post(engine, path, kv_transfer_params=PARAMS)

    assert engine.streams[0].kv_transfer_params == PARAMS


@pytest.mark.parametrize("path", BODIES)
async def test_answer_has_the_engines_parameters(path: str) -> None:
    """They are a field of the answer, absent if the engine has none."""
    engine = FakeEngine()

    _, [before] = await post(engine, path)
    engine.transfer_params = TOLD
    _, [after] = await post(engine, path)

    assert "kv_transfer_params" not in before
    assert after["kv_transfer_params"] == TOLD


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("path", BODIES)
async def test_stream_has_them_in_its_last_event(path: str, n: int) -> None:
    """Only the last event with a finish reason has them."""
    engine = FakeEngine(["x", "y"])
    engine.transfer_params = TOLD

    _, events = await post(
        engine, path, n=n, stream=True, stream_options={"include_usage": True}
    )

    with_params = [event for event in events if "kv_transfer_params" in event]
    [*_, end] = [
        event
        for event in events
        if event["choices"] and event["choices"][0]["finish_reason"]
    ]
    assert with_params == [end]
    assert end["kv_transfer_params"] == TOLD


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1], "expected object"),
        ("x", "expected object"),
        (nested(TRANSFER_DEPTH.most + 1), "levels of nesting"),
        ({"a": "x" * TRANSFER_BYTES.most}, "bytes as JSON"),
    ],
)
async def test_invalid_parameters_are_refused(value: object, words: str) -> None:
    """Values that are not objects, too deep or too large are a 400 naming the field."""
    engine = FakeEngine()

    status, [answer] = await post(engine, "/v1/completions", kv_transfer_params=value)

    assert status == 400
    assert answer["error"]["param"] == "kv_transfer_params"
    assert words in answer["error"]["message"]
    assert not engine.streams


async def test_as_deep_as_allowed_is_taken() -> None:
    """The limit is the last depth that is taken."""
    engine = FakeEngine()
    value = nested(TRANSFER_DEPTH.most)

    status, _ = await post(engine, "/v1/completions", kv_transfer_params=value)

    assert status == 200
    assert engine.streams[0].kv_transfer_params == value


async def test_several_prompts_are_refused() -> None:
    """The parameters describe the KV of one prompt."""
    engine = FakeEngine()

    status, [answer] = await post(
        engine, "/v1/completions", prompt=["a", "b"], kv_transfer_params=PARAMS
    )

    assert status == 400
    assert answer["error"]["param"] == "kv_transfer_params"
