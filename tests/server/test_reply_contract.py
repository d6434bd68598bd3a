"""What models write by mistake, through each interface for conversations."""

import json
from typing import Any

import pytest

from hookline_server.context import PARSERS
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.guarded_parser import GuardedParser
from hookline_server.replies.reply_reader import ReplyReader
from hookline_server.replies.settings import ReplySettings
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
)
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="deepseek_r1")
)
SCRIPT = (
    "Hm, I l",
    "ook.\n<tool",
    "_call>{'name': 'f', 'arguments': {'a': \"one\n",
    "two\", 'b': T",
    "rue,}}</tool_call>\n</th",
    "ink><think>So.</think>Done.",
)
ARGUMENTS = {"a": "one\ntwo", "b": True}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"name": "f", "parameters": SCHEMA}
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": FUNCTION}],
    },
    "messages": {
        "max_tokens": 20,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
    },
    "responses": {"input": "Hi", "tools": [{"type": "function", **FUNCTION}]},
}


def said_by(api: str, answer: Any) -> tuple[str, str, list[Any]]:
    """Returns content, reasoning, and the calls' arguments."""
    if api == "chat/completions":
        message = answer["choices"][0]["message"]
        calls = [
            json.loads(each["function"]["arguments"]) for each in message["tool_calls"]
        ]
        return message["content"], message["reasoning_content"], calls
    if api == "messages":
        parts = answer["content"]
        texts = [each.get("text", "") for each in parts]
        thoughts = [each.get("thinking", "") for each in parts]
        calls = [each["input"] for each in parts if each["type"] == "tool_use"]
        return "".join(texts), "".join(thoughts), calls
    items = answer["output"]
    return (
        "".join(
            part["text"]
            for each in items
            if each["type"] == "message"
            for part in each["content"]
        ),
        "".join(
            part["text"]
            for each in items
            if each["type"] == "reasoning"
            for part in each["content"]
        ),
        [
            json.loads(each["arguments"])
            for each in items
            if each["type"] == "function_call"
        ],
    )


@pytest.mark.parametrize("api", sorted(BODIES))
async def test_slips_are_mended_and_counted(api: str) -> None:
    """
    A call ends reasoning, its arguments are JSON, and stray tags are nobody's text.
    """
    async with client_of(FakeEngine(SCRIPT), SETTINGS) as client:
        response = await client.post(
            f"/v1/{api}", json={"model": "fake", **BODIES[api]}
        )
        answer = await response.json()
        assert client.app is not None
        counts = client.app[PARSERS].failures.stats()

    assert said_by(api, answer) == ("Done.", "Hm, I look.So.", [ARGUMENTS]), answer
    assert not any(count for *_, count in counts.failures)
    repairs = {(kind, name, repair) for kind, name, repair, _ in counts.repairs}
    assert {
        ("tool", "hermes", "character"),
        ("tool", "hermes", "literal"),
        ("tool", "hermes", "comma"),
        ("tool", "hermes", "quote"),
        ("reasoning", "deepseek_r1", "reasoning"),
        ("reasoning", "deepseek_r1", "tag"),
    } == repairs


@pytest.mark.parametrize("api", sorted(BODIES))
async def test_streams_say_the_same(api: str) -> None:
    """
    No piece of a stream has a tag, and the pieces of the arguments are JSON.
    """
    body = {"model": "fake", "stream": True, **BODIES[api]}
    async with client_of(FakeEngine(SCRIPT), SETTINGS) as client:
        response = await client.post(f"/v1/{api}", json=body)
        text = await response.text()

    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    pieces = [
        delta for line in lines for delta in argument_deltas(api, json.loads(line))
    ]
    assert json.loads("".join(pieces)) == ARGUMENTS
    assert "think>" not in text
    assert "tool_call>" not in text
    assert "Done." in text


def argument_deltas(api: str, event: Any) -> list[str]:
    if api == "chat/completions":
        return [
            call["function"]["arguments"]
            for choice in event["choices"]
            for call in choice["delta"].get("tool_calls", ())
        ]
    if api == "messages":
        return [event["delta"]["partial_json"]] if "partial_json" in str(event) else []
    is_delta = event["type"] == "response.function_call_arguments.delta"
    return [event["delta"]] if is_delta else []


class Plain:
    """A plugin's parser that knows nothing of the contract."""

    needs_special_tokens = False

    def __init__(self, kind: type[Reasoning | Content]) -> None:
        self.kind = kind

    def push(self, text: str) -> list[Part]:
        if self.kind is Reasoning:
            return [Reasoning(text)]
        if text.startswith("{"):
            return [CallBegun("f"), CallArguments(text)]
        return [Content(text)]

    def finish(self) -> list[Part]:
        return []


def test_parsers_of_plugins_keep_to_the_contract_unknowingly() -> None:
    """
    Their arguments are mended, and a call ends the reasoning of a parser for good.
    """
    counts = FailureCounts()
    reader = ReplyReader(
        GuardedParser("reasoning", "plain", Plain(Reasoning), counts),
        GuardedParser("tool", "plain", Plain(Content), counts),
    )

    read = [reader.read(piece, (), bytes) for piece in ("Hm.", "{'a': 1", "So.")]
    parts = [part for some in read for each in some for part in each]
    parts += reader.finish()

    assert parts == [
        Reasoning("Hm."),
        CallBegun("f"),
        CallArguments('{"a": '),
        CallArguments("1}"),
        Content("So."),
    ]
