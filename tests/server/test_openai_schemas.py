"""Answers match what OpenAI's published description requires of them.

`openai_messages.yaml` has the cut-down description. Answers are also compared with the
server's own document.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from hookline.request import FinishReason
from hookline_server.app import create_app
from hookline_server.openapi.document import openapi_document
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.described_api import DescribedApi, event_data
from hookline_testing.scripted_server import FakeEngine, client_of

MESSAGES = yaml.safe_load(
    Path(__file__).with_name("openai_messages.yaml").read_text("utf-8")
)
PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
HELLO = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
CHAT: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "choices": {"n": 3},
    "log-probabilities": {"logprobs": True, "top_logprobs": 2},
    "log-probabilities of the prompt": {"prompt_logprobs": 1, "return_token_ids": True},
    "calls": {"tools": TOOLS, "tool_choice": "auto"},
    "former calls": {"functions": [TOOLS[0]["function"]]},
    "structured": {"response_format": {"type": "json_object"}},
}
COMPLETION: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "several": {"prompt": ["a", "b"], "n": 2},
    "log-probabilities": {"logprobs": 2, "echo": True},
    "log-probabilities of the prompt": {"prompt_logprobs": 1, "return_token_ids": True},
}
RESPONSES: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "log-probabilities": {
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
    },
    "calls": {"tools": [{"type": "function", "name": "f"}]},
    "structured": {"text": {"format": {"type": "json_object"}}},
    "everything": {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 5,
    },
}


@cache
def described_api() -> DescribedApi:
    document = openapi_document(create_app(FakeEngine(), PARSERS))
    return DescribedApi(json.loads(json.dumps(document)))


def check(name: str, value: object) -> None:
    """Fails where a value is not what the description requires."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": MESSAGES}
    errors = Draft202012Validator(schema).iter_errors(value)
    found = [f"{error.json_path}: {error.message[:200]}" for error in errors]
    assert not found, f"{name}: {found}"


def engine_of(kind: str) -> FakeEngine:
    script = ("<think>\nHm.\n</think>\n\n", CALL if "calls" in kind else "Hello")
    return FakeEngine(script, finish_reason=FinishReason.STOP)


async def answer(
    engine: FakeEngine,
    path: str,
    body: Mapping[str, object] | None = None,
    settings: ServerSettings = PARSERS,
) -> tuple[int, list[Any]]:
    """The status, and the messages of a response, which the document describes."""
    method = "GET" if body is None else "POST"
    async with client_of(engine, settings) as client:
        response = await client.request(method, path, json=body)
        data = await response.read()
    known = "/v1/models/{model}" if path.startswith("/v1/models/") else path
    fault = described_api().fault(
        method, known, response.status, response.content_type, data
    )
    assert fault is None
    if response.content_type == "text/event-stream":
        events = list(event_data(data.decode()))
        if path != "/v1/responses":
            assert events.pop() == "[DONE]"
        return response.status, [json.loads(each) for each in events]
    return response.status, [json.loads(data)]


def test_descriptions_are_schemas() -> None:
    """
    A mistake in the test data would let everything pass.
    """
    for schema in MESSAGES.values():
        Draft202012Validator.check_schema(schema)
    for name in MESSAGES:
        with pytest.raises(AssertionError):
            check(name, 5)


@pytest.mark.parametrize("kind", CHAT)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_chats_match(kind: str, is_streamed: bool) -> None:
    """
    Whole and streamed, with everything that an answer can have.
    """
    body = {"messages": HELLO, **CHAT[kind]}
    if is_streamed:
        body.pop("prompt_logprobs", None)
        body |= USAGE

    status, messages = await answer(engine_of(kind), "/v1/chat/completions", body)

    assert status == 200, messages
    for message in messages:
        check("ChatChunk" if is_streamed else "ChatCompletion", message)
    assert messages[-1]["usage"]["total_tokens"] > 0
    if is_streamed:
        assert messages[-1]["choices"] == []
        assert all(each["usage"] is None for each in messages[:-1])


@pytest.mark.parametrize("kind", COMPLETION)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_completions_match(kind: str, is_streamed: bool) -> None:
    """
    Whole and streamed, with everything that an answer can have.
    """
    body = {"prompt": "a", "max_tokens": 30, **COMPLETION[kind]}
    if is_streamed:
        body.pop("prompt_logprobs", None)
        body |= USAGE

    status, messages = await answer(engine_of(kind), "/v1/completions", body)

    assert status == 200, messages
    for message in messages:
        check("TextCompletion", message)


@pytest.mark.parametrize("kind", RESPONSES)
@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
async def test_responses_match(kind: str, reason: FinishReason) -> None:
    """
    Whole, and each event of a stream.
    """
    body = {"input": "Hi", **RESPONSES[kind]}
    engine = engine_of(kind)
    engine.finish_reason = reason

    _, [whole] = await answer(engine, "/v1/responses", body)
    status, events = await answer(engine, "/v1/responses", {**body, "stream": True})

    check("Response", whole)
    assert status == 200
    for event in events:
        check("ResponseEvent", event)
        if "item" in event:
            check("OutputItem", event["item"])
    assert events[-1]["response"].keys() == whole.keys()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/responses", {"input": []}, 400),
        ("/v1/responses", {"input": "a", "model": "other"}, 404),
        ("/v1/responses", {"input": "a", "previous_response_id": "resp_x"}, 400),
        ("/v1/chat/completions", {"messages": []}, 400),
        ("/v1/chat/completions", {"messages": HELLO, "model": "other"}, 404),
        ("/v1/completions", {"prompt": "a", "temperature": 3}, 400),
        ("/v1/completions", {"prompt": [5] * 99}, 400),
        ("/v1/models/other", None, 404),
    ],
)
async def test_errors_match(
    path: str, body: dict[str, object] | None, status: int
) -> None:
    """
    Every error has all four fields.
    """
    found, [message] = await answer(FakeEngine(), path, body)

    assert found == status
    check("Error", message)


async def test_an_error_in_a_stream_matches() -> None:
    """
    It has the form of an error, and the stream its end.
    """
    engine = FakeEngine(["a", "b"])
    engine.gate.clear()
    engine.free_steps = 1
    engine.refusal = None
    body = {"messages": HELLO, "stream": True}
    async with client_of(engine) as client:
        response = await client.post("/v1/chat/completions", json=body)
        engine.failure = "gone"
        engine.gate.set()
        *_, error, done = event_data(await response.text())

    check("Error", json.loads(error))
    assert done == "[DONE]"


async def test_models_match() -> None:
    """
    The list, and one of them.
    """
    _, [listing] = await answer(FakeEngine(), "/v1/models")
    _, [card] = await answer(FakeEngine(), "/v1/models/fake")

    check("ModelList", listing)
    check("Model", card)
