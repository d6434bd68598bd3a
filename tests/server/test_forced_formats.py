"""Forced calls in the chosen format: their ids, and the markup of the model itself."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.protocol.tools import Tool
from hookline_server.replies.parsers import choose_parsers
from hookline_server.replies.settings import ReplySettings
from hookline_server.replies.strict_calls import forced_tag
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "time", "strict": True}},
]
NAMED = {"type": "function", "function": {"name": "weather"}}
LIST = '[{"name":"weather","parameters":{}},{"name":"time","parameters":{}}]'
HISTORY = [
    *HELLO,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "time", "arguments": "{}"}},
            {"id": "c2", "function": {"name": "time", "arguments": "{}"}},
        ],
    },
    *({"role": "tool", "tool_call_id": each, "content": "1"} for each in ("c1", "c2")),
]


def engine_of(*script: str, backend: str = "xgrammar") -> FakeEngine:
    engine = FakeEngine(script)
    engine.facts = replace(FACTS, structured_outputs=backend)
    return engine


async def called(
    parser: str | None, engine: FakeEngine, **fields: object
) -> list[dict[str, Any]]:
    """Returns the calls of a reply, whole; those of a stream are the same."""
    settings = ServerSettings(replies=ReplySettings(tool_call_parser=parser))
    body = {"messages": HELLO, "tools": TOOLS, "max_tokens": 3, **fields}
    found: list[dict[str, Any]] = []
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/chat/completions", json=body)
        text = await response.text()
        assert response.status == 200, text
    if not fields.get("stream"):
        message = json.loads(text)["choices"][0]["message"]
        assert not message["content"]
        calls: list[dict[str, Any]] = message["tool_calls"]
        return calls
    for line in text.splitlines():
        if line.startswith("data: {"):
            delta = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
            found += [each for each in delta.get("tool_calls", ()) if "id" in each]
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("parser", "first", "second"),
    [
        ("mistral", r"[A-Za-z0-9]{9}", r"[A-Za-z0-9]{9}"),
        ("kimi_k2", r"functions\.weather:2", r"functions\.time:3"),
        ("pythonic", r"call_\w+", r"call_\w+"),
        (None, r"call_\w+", r"call_\w+"),
    ],
)
async def test_ids_are_those_of_the_format(
    parser: str | None, first: str, second: str, *, stream: bool
) -> None:
    """
    Chat templates refuse others, or number them through the whole conversation.
    """
    messages = HISTORY if parser == "kimi_k2" else HELLO
    required = await called(
        parser,
        engine_of(*LIST),
        tool_choice="required",
        stream=stream,
        messages=messages,
    )
    named = await called(
        parser, engine_of("{}"), tool_choice=NAMED, stream=stream, messages=messages
    )

    ids = [each["id"] for each in required]
    assert len(set(ids)) == 2
    assert re.fullmatch(first, ids[0])
    assert re.fullmatch(second, ids[1])
    assert re.fullmatch(first, named[0]["id"])


def grammar_of(engine: FakeEngine) -> dict[str, Any]:
    grammar = engine.streams[0].params.structured_outputs
    assert grammar is not None
    if grammar.structural_tag is None:
        return {"loose": list(grammar.loose)}
    assert isinstance(grammar.structural_tag, str)
    found: dict[str, Any] = json.loads(grammar.structural_tag)["format"]
    return {**found, "loose": list(grammar.loose)}


async def test_calls_are_forced_in_the_models_own_markup() -> None:
    """
    The reply is nothing but calls as the parser knows them: of any function, one or
    more, or one of the named function.
    """
    text = (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    )
    engine, one, single = (engine_of(*text) for _ in range(3))

    [call] = await called("hermes", engine, tool_choice="required")
    [named] = await called("hermes", one, tool_choice=NAMED)
    await called("hermes", single, tool_choice="required", parallel_tool_calls=False)

    assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert named["function"] == call["function"]
    grammar, only = grammar_of(engine), grammar_of(one)
    assert grammar["type"] == only["type"] == "tags_with_separator"
    assert grammar["at_least_one"]
    assert "stop_after_first" not in grammar
    assert only["stop_after_first"]
    assert grammar_of(single)["stop_after_first"]
    begins = [each["begin"] for each in only["tags"]]
    assert all("weather" in each for each in begins)
    assert {each["begin"] for each in grammar["tags"]} > set(begins)


async def test_only_the_schemas_of_strict_functions_must_be_followed() -> None:
    """
    Others may be loosened where no backend can follow them, whatever the markup.
    """
    engine, listed, named = engine_of(""), engine_of(""), engine_of("")
    settings = ServerSettings(replies=ReplySettings(tool_call_parser="hermes"))
    body = {"messages": HELLO, "tools": TOOLS}
    async with client_of(engine, settings) as client:
        await client.post(
            "/v1/chat/completions", json={**body, "tool_choice": "required"}
        )
    for each, choice in ((listed, "required"), (named, NAMED)):
        async with client_of(each) as client:
            await client.post(
                "/v1/chat/completions", json={**body, "tool_choice": choice}
            )

    tags = grammar_of(engine)
    loose = {int(each.split("/")[3]) for each in tags["loose"]}
    assert {
        "weather" in each["begin"] for each in map(tags["tags"].__getitem__, loose)
    } == {True}
    assert grammar_of(listed)["loose"] == ["/$defs/tool0"]
    assert grammar_of(named)["loose"] == [""]


def test_formats_that_can_be_forced() -> None:
    """
    In those that no grammar can have, calls are forced as JSON; arguments in tags need
    the backend that knows them.
    """
    tool = Tool(name="f", description="", parameters=CITY, strict=False)
    use = ToolUse(tools=(tool,), choice=Choice.REQUIRED)
    forced: dict[str, dict[str, bool]] = {}
    for backend in ("xgrammar+llguidance", "llguidance", ""):
        engine = engine_of("", backend=backend)
        for name in ("hermes", "llama3_json", "qwen3_coder", "mistral", "kimi_k2"):
            parser = choose_parsers(ReplySettings(tool_call_parser=name)).tool
            is_forced = forced_tag(engine, parser, use) is not None
            forced.setdefault(name, {})[backend] = is_forced

    assert {name: list(each.values()) for name, each in forced.items()} == {
        "hermes": [True, True, False],
        "llama3_json": [True, True, False],
        "qwen3_coder": [True, False, False],
        "mistral": [False, False, False],
        "kimi_k2": [False, False, False],
    }
