"""What `/v1/responses` refuses, by one clear error each."""

from typing import Any

import pytest

from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS, TOOLS
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PARSERS = ServerSettings(replies=ReplySettings(tool_call_parser="hermes"))
TOOL = {"type": "function", "name": "f"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


async def refusal(
    fields: dict[str, Any], settings: ServerSettings = PARSERS
) -> dict[str, Any]:
    """Returns an error, which observers get, too."""
    engine = FakeEngine()
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/responses", json={"input": "Hi", **fields})
        answer = await response.json()
    assert response.status == 400, answer
    error: dict[str, Any] = answer["error"]
    assert error["type"] == "invalid_request_error"
    assert not engine.streams
    assert [each.message for each in engine.rejected] == [error["message"]]
    return error


def message(content: object, role: str = "user") -> dict[str, Any]:
    return {"input": [{"role": role, "content": content}]}


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"background": True}, "background", "background mode is not supported"),
        ({"conversation": "c"}, "conversation", "is not supported"),
        ({"prompt": {"id": "p"}}, "prompt", "a stored prompt is not supported"),
        ({"previous_response": {"id": "a"}}, "previous_response", "not supported"),
        ({"previous_input_messages": [{}]}, "previous_input_messages", "not supported"),
        ({"input": None}, "input", "input is missing"),
        ({"input": []}, "input", "input must not be empty"),
        ({"input": 5}, "input", "input: expected"),
        ({"max_output_tokens": 0}, "max_output_tokens", "must be at least 1"),
        ({"max_output_tokens": 99}, "max_output_tokens", "maximum context length"),
        ({"input": "x" * 99}, "input", "maximum context length"),
        ({"max_tool_calls": 0}, "max_tool_calls", "must be at least 1"),
        ({"temperature": 3}, "temperature", "temperature must be at most 2"),
        ({"top_p": 0}, "top_p", "top_p must be"),
        ({"top_logprobs": 21}, "top_logprobs", "top_logprobs has 21"),
        ({"top_logprobs": -1}, "top_logprobs", "must be at least 0"),
        ({"truncation": "some"}, "truncation", "must be one of auto, disabled"),
        ({"reasoning": {"effort": "x"}}, "reasoning.effort", "reasoning.effort must"),
        ({"text": {"format": {"type": "x"}}}, "text.format.type", "must be one of"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x"}}},
            "text.format.schema",
            "text.format.schema is missing",
        ),
        ({"metadata": {"a": 5}}, "metadata[...]", "expected str"),
        ({"stream_options": {}}, "stream_options", "requires stream to be true"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            "obfuscation is not supported",
        ),
        ({"cache_salt": ""}, "cache_salt", "must have 1 to 256 characters"),
        ({"chat_template_kwargs": {"tools": 1}}, "chat_template_kwargs.tools", ""),
    ],
)
async def test_refused_fields(fields: dict[str, Any], param: str, text: str) -> None:
    """
    The error names the field as the client knows it.
    """
    error = await refusal(fields)

    assert error["param"] == param
    assert text in error["message"]


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"tools": [{"name": "f"}]}, "tools[0].type", "tools[0].type is missing"),
        (
            {"tools": [{"type": "function"}]},
            "tools[0].name",
            "tools[0].name is missing",
        ),
        ({"tools": [{**TOOL, "name": "f f"}]}, "tools[0].name", "must consist of"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name", "another function"),
        ({"tools": [TOOL] * (TOOLS.most + 1)}, "tools", str(TOOLS.most)),
        ({"tools": [{"type": "custom"}]}, "tools[0].name", "is missing"),
        ({"tools": [{"type": "namespace"}]}, "tools[0].name", "is missing"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [TOOL, TOOL]}]},
            "tools[0].tools[1].name",
            "another function",
        ),
        ({"tool_choice": "any", "tools": [TOOL]}, "tool_choice", "must be one of"),
        ({"tool_choice": "required"}, "tool_choice", "requires tools"),
        (
            {"tool_choice": "required", "tools": [TOOL]},
            "tool_choice",
            "this server cannot force calls",
        ),
        (
            {"tool_choice": {"type": "function", "name": "g"}, "tools": [TOOL]},
            "tool_choice.name",
            "not among the request's functions",
        ),
        (
            {"tool_choice": {"type": "function"}, "tools": [TOOL]},
            "tool_choice.name",
            "not among the request's functions",
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "g"}],
                },
                "tools": [TOOL],
            },
            "tool_choice.tools[0].name",
            "not among the request's functions",
        ),
        (
            {"tool_choice": {"type": "allowed_tools"}, "tools": [TOOL]},
            "tool_choice.tools",
            "must not be empty",
        ),
    ],
)
async def test_refused_tools(fields: dict[str, Any], param: str, text: str) -> None:
    """
    What contradicts itself, or names a tool that the request does not have.
    """
    error = await refusal(fields)

    assert error["param"] == param
    assert text in error["message"]


async def test_calls_need_a_parser() -> None:
    """
    A server without one cannot find them.
    """
    error = await refusal({"tools": [TOOL]}, ServerSettings())

    assert error["param"] == "tools"
    assert "--tool-call-parser" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        (
            {"input": [{"type": "compaction_trigger"}]},
            "input[0]",
            "cannot compact a conversation",
        ),
        ({"input": [{"type": "web_search_call"}]}, "input", "has no item"),
        ({"input": ["Hi"]}, "input[0]", "expected object"),
        ({"input": [{**CALL, "name": None}]}, "input[0].name", "is missing"),
        (message("a", "tool"), "input[0].role", "must be one of user, assistant"),
        ({"input": [{"type": "message"}]}, "input[0].role", "must be one of"),
        (message(None), "input[0].content", "input[0].content is missing"),
        (
            message([{"type": "input_image", "image_url": "x"}]),
            "input[0].content[0]",
            "content of type 'input_image' is not supported",
        ),
        (
            message([{"type": "input_text"}]),
            "input[0].content[0].text",
            "is missing",
        ),
        (
            message([{"type": "refusal"}], "assistant"),
            "input[0].content[0].refusal",
            "is missing",
        ),
        (
            {"input": [{"type": "function_call_output", "output": "a"}]},
            "input[0].call_id",
            "is missing",
        ),
        (
            {"input": [{**CALL, "arguments": "[" * 65 + "]" * 65}]},
            "input[0].arguments",
            "at most 64 are allowed",
        ),
    ],
)
async def test_refused_items(fields: dict[str, Any], param: str, text: str) -> None:
    """
    The error tells where the item stands.
    """
    error = await refusal(fields)

    assert error["param"] == param
    assert text in error["message"]


@pytest.mark.parametrize(
    "items",
    [
        [{"role": "user", "content": "a"}] * (MESSAGES.most + 1),
        [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": ""}]
                * (CONTENT_PARTS.most + 1),
            }
        ],
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": ""}] * 2}]
        * (CONTENT_PARTS.most // 2 + 1),
    ],
    ids=["items", "parts", "summaries"],
)
async def test_too_many_items(items: list[Any]) -> None:
    """
    The limits of a conversation hold, and name the field.
    """
    error = await refusal({"input": items})

    assert (error["code"], error["param"]) == ("limit_exceeded", "input")
    assert TOOL_CALLS.most <= MESSAGES.most  # so that calls need no case of their own


async def test_two_forms_of_text_contradict() -> None:
    """
    A request asks for one.
    """
    error = await refusal(
        {
            "text": {"format": {"type": "json_object"}},
            "structured_outputs": {"regex": "a"},
        }
    )

    assert error["param"] == "text.format"
