"""Strict functions that the model may call: the grammar that the engine gets."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hookline.structured_outputs import ReasoningSpan, StructuredOutputsParams
from hookline_chat_formats.hermes import HermesParser
from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.protocol.tools import Tool
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.parsers import ChosenParser
from hookline_server.replies.settings import ReplySettings
from hookline_server.replies.strict_calls import strict_tag
from hookline_server.reply_parsing.tool_parser import ToolParserContext
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of
from hookline_testing.server_process import serving

BRACE = 93
"""The demo model's token of a brace."""
HELLO = [{"role": "user", "content": "Hi"}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
STRICT: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": CITY, "strict": True},
}
LOOSE = {"type": "function", "function": {"name": "g", "parameters": {}}}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


def settings_of(tool: str = "hermes", reasoning: str | None = None) -> ServerSettings:
    return ServerSettings(
        replies=ReplySettings(tool_call_parser=tool, reasoning_parser=reasoning)
    )


async def grammar_of(
    settings: ServerSettings, *, backend: str = "fake", **fields: object
) -> StructuredOutputsParams | None:
    """Returns what the engine is told of the text of a request's reply."""
    engine = FakeEngine([CALL])
    engine.facts = replace(FACTS, structured_outputs=backend)
    body = {"messages": HELLO, "tools": [LOOSE, STRICT], "max_tokens": 9, **fields}
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/chat/completions", json=body)
        assert response.status == 200, await response.text()
    return engine.streams[0].params.structured_outputs


@pytest.mark.parametrize("choice", [None, "auto"])
async def test_calls_follow_their_schemas(choice: str | None) -> None:
    """
    The engine gets the structural tag of the parser: other functions take any object.
    """
    asked = await grammar_of(settings_of(), tool_choice=choice)

    assert asked is not None
    assert isinstance(asked.structural_tag, str)
    tags = json.loads(asked.structural_tag)["format"]["tags"]
    schemas = {each["begin"]: each["content"]["json_schema"] for each in tags}
    assert schemas['<tool_call>\n{"name": "weather", "arguments": '] == CITY
    assert schemas['<tool_call>\n{"name": "g", "arguments": '] == {"type": "object"}


async def test_reasoning_comes_before_the_calls() -> None:
    """
    The tag begins behind the reasoning, as other grammars do.
    """
    asked = await grammar_of(settings_of(reasoning="deepseek_r1"))

    assert asked is not None
    assert asked.reasoning == ReasoningSpan(end="</think>")


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (settings_of(), {"tools": [LOOSE]}),
        (settings_of(), {"backend": ""}),
        (settings_of(), {"tool_choice": "none"}),
        (settings_of("pythonic"), {}),
        (settings_of("granite"), {}),
    ],
)
async def test_calls_stay_free(
    settings: ServerSettings, fields: dict[str, Any]
) -> None:
    """
    Of functions that are not strict, without a backend, and in formats without a tag.
    """
    assert await grammar_of(settings, **fields) is None


async def test_a_format_of_the_client_prevails() -> None:
    """
    The whole text follows it then.
    """
    asked = await grammar_of(settings_of(), response_format={"type": "json_object"})

    assert asked is not None
    assert asked.json_object


class MarkedParser(HermesParser):
    """Marks calls by a special token."""

    def structural_tag(self, strict: Collection[str]) -> dict[str, Any] | None:
        tag = super().structural_tag(strict)
        return json.loads(json.dumps(tag).replace("<tool_call>", "<special>"))  # type: ignore[no-any-return]


class BrokenParser(HermesParser):
    """Fails when it is asked for a tag."""

    def structural_tag(self, strict: Collection[str]) -> dict[str, Any] | None:
        raise ValueError(f"no tag for {sorted(strict)}")


def tag_of(
    make: type[HermesParser], failures: FailureCounts
) -> Mapping[str, Any] | None:
    engine = FakeEngine()
    engine.facts = replace(FACTS, structured_outputs="fake")
    tool = Tool(name="weather", description="", parameters=CITY, strict=True)
    failures.watch("tool", "p")
    parser = ChosenParser(
        kind="tool",
        name="p",
        make=make,
        needs_special_tokens=False,
        failures=failures,
        has_structural_tags=True,
    )
    return strict_tag(engine, parser, ToolUse(tools=(tool,), choice=Choice.AUTO))


def test_special_tokens_are_in_no_tag() -> None:
    """
    No grammar contains them, so that a tag with one would forbid all calls.
    """
    failures = FailureCounts()

    assert MarkedParser(ToolParserContext(tools={"f": {}})).structural_tag(())
    assert tag_of(HermesParser, failures) is not None
    assert tag_of(MarkedParser, failures) is None


def test_a_parser_that_fails_is_counted() -> None:
    """
    Its calls are free then.
    """
    failures = FailureCounts()

    assert tag_of(BrokenParser, failures) is None
    assert failures.stats().failures == (("tool", "p", 1),)


@pytest.mark.slow
def test_a_real_model_calls_by_the_schema() -> None:
    """
    The demo model, made to like braces, writes a call instead of many of them. A schema
    that no grammar can be made of is a 400 that names the tools.
    """
    pytest.importorskip("xgrammar")
    city = {"type": "string", "maxLength": 4}
    function = {"name": "weather", "parameters": {**CITY, "properties": {"city": city}}}
    broken = {"name": "f", "parameters": {"properties": {"a": {"$ref": "#/no"}}}}
    with serving(
        "--port=0", "--model=demo", "--tool-call-parser=llama3_json"
    ) as server:

        def ask(function: dict[str, Any], *, strict: bool) -> tuple[int, Any]:
            tool = {"type": "function", "function": {**function, "strict": strict}}
            body = {"messages": HELLO, "tools": [tool], "max_tokens": 60}
            return server.post(
                "/v1/chat/completions", {**body, "logit_bias": {BRACE: 100}}
            )

        _, tokens = server.post("/tokenize", {"prompt": "{"})
        assert tokens["tokens"] == [BRACE]
        status, answer = ask(function, strict=True)
        _, free = ask(function, strict=False)
        refused, error = ask(broken, strict=True)

    assert status == 200, answer
    [call, *_] = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "{{{{"}
    assert "{{{{{{{{" in free["choices"][0]["message"]["content"]
    assert (refused, error["error"]["param"]) == (400, "tools")
