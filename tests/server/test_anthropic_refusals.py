"""What `/v1/messages` refuses, by one clear error each."""

from typing import Any

import pytest

from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
BODY: dict[str, Any] = {"model": "fake", "max_tokens": 9, "messages": HELLO}
PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


async def refusal(**fields: Any) -> str:
    """Returns the message of an error, which observers get, too."""
    engine = FakeEngine()
    async with client_of(engine, PARSERS) as client:
        response = await client.post("/v1/messages", json={**BODY, **fields})
        answer = await response.json()
    assert response.status == 400, answer
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert not engine.streams
    assert [each.message for each in engine.rejected] == [answer["error"]["message"]]
    return str(answer["error"]["message"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": None}, "max_tokens: expected int, got null"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"messages": []}, "messages must not be empty"),
        ({"temperature": 3}, "temperature must be at most 2, not 3"),
        ({"stop_sequences": [""]}, "stop_sequences must not hold empty strings"),
        (
            {"output_config": {"format": {"type": "json_schema"}}},
            "output_config.format.schema is missing",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 0}},
            "thinking.budget_tokens must be at least 1",
        ),
        (
            {"tool_choice": {"type": "any"}, "tools": TOOLS},
            "tool_choice: this server cannot force calls",
        ),
        (
            {"tool_choice": {"type": "tool", "name": "f"}, "tools": TOOLS},
            "tool_choice: this server cannot force calls",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice 'any' requires tools"),
        (
            {"tool_choice": {"type": "tool", "name": "h"}, "tools": TOOLS},
            "tool_choice.name is 'h', which is not among the request's functions",
        ),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type must be one of auto, "),
        (
            {"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
            "tool_choice.name is 'web_search', which is not among the request's",
        ),
        ({"tools": [SEARCH, {"name": "f"}]}, "tools[1].input_schema is missing"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema is missing"),
        (
            {"tools": [{"name": "f f", "input_schema": {}}]},
            "tools[0].name must consist of letters",
        ),
        (
            {"tools": [TOOLS[0], TOOLS[0]]},
            "tools[1].name 'f' is the name of another function, too",
        ),
    ],
)
async def test_refused_fields(fields: dict[str, Any], message: str) -> None:
    """
    Each is one clear error that names the field as the client knows it.
    """
    assert message in await refusal(**fields)


@pytest.mark.parametrize(
    ("role", "content", "message"),
    [
        ("moderator", "a", "messages[1].role must be user, assistant or system, not"),
        ("system", [{"type": "image"}], "messages[1].content[0]: a block of type"),
        ("user", [], "messages[1].content must not be empty"),
        (
            "user",
            [{"type": "image", "source": {"type": "base64", "data": "aa"}}],
            "messages[1].content[0]: a block of type 'image' is not supported",
        ),
        ("user", [{"type": "text"}], "messages[1].content[0].text is missing"),
        (
            "user",
            [{"type": "tool_result", "content": "a"}],
            "messages[1].content[0].tool_use_id is missing",
        ),
        (
            "user",
            [{"type": "document", "source": {"type": "base64", "data": "aa"}}],
            "messages[1].content[0]: a block of type 'document' is not supported",
        ),
        (
            "assistant",
            [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
            "messages[1].content[0]: only a message that ends with text can be",
        ),
        (
            "assistant",
            [{"type": "tool_use", "name": "f", "input": {}}],
            "messages[1].content[0].id is missing",
        ),
        (
            "assistant",
            [{"type": "tool_result", "tool_use_id": "a"}],
            "messages[1].content[0]: a block of type 'tool_result' is not supported",
        ),
        ("user", [{"type": "text", "text": "a"}] * 4097, "content parts"),
    ],
)
async def test_refused_messages(role: str, content: object, message: str) -> None:
    """
    The error says where it stands in the request, not in what that becomes.
    """
    messages = [*HELLO, {"role": role, "content": content}]

    assert message in await refusal(messages=messages)


async def test_what_the_servers_parsers_cannot_find_is_refused() -> None:
    """
    Without a parser calls cannot be told from text.
    """
    async with client_of(FakeEngine()) as client:
        response = await client.post("/v1/messages", json={**BODY, "tools": TOOLS})
        error = (await response.json())["error"]

    assert response.status == 400
    assert "--tool-call-parser" in error["message"]
