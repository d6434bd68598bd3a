"""The package `anthropic`, as installed, holds a conversation with tools."""

import dataclasses
from typing import Any

import pytest

from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

anthropic = pytest.importorskip("anthropic")

SETTINGS = ServerSettings(
    api_key="k",
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3"),
)
TOOLS = [
    {
        "name": "get_weather",
        "description": "Tells the weather.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
FIRST = (
    *("<think>", "\nBoth", ".\n</th", "ink>\n\n", "I look", ".\n<tool_call>\n"),
    *('{"name": "get', '_weather", "argu', 'ments": {"city": "Ko', "šice"),
    *('"}}\n', "</tool_call>"),
)
SECOND = ("It rains ", "there", ".")
QUESTION = {"role": "user", "content": "Does it rain in Košice?"}


async def ask(client: Any, messages: list[Any], is_streamed: bool) -> Any:
    given = {
        "model": "fake",
        "max_tokens": 99,
        "messages": messages,
        "tools": TOOLS,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    if not is_streamed:
        return await client.messages.create(**given)
    async with client.messages.stream(**given) as stream:
        return await stream.get_final_message()


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_two_turns_with_a_tool(is_streamed: bool) -> None:
    """
    The client sends its key, gets a call, returns the result, and gets the answer.
    """
    engine = FakeEngine(FIRST, finish_reason=FinishReason.STOP)
    engine.facts = dataclasses.replace(
        engine.facts, model=dataclasses.replace(engine.facts.model, max_model_len=4096)
    )
    async with client_of(engine, SETTINGS) as server:
        base_url = str(server.make_url("/"))
        async with anthropic.AsyncAnthropic(base_url=base_url, api_key="k") as client:
            asked = await ask(client, [QUESTION], is_streamed)
            thinking, text, call = asked.content
            engine.script = SECOND
            result = {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": "rain",
            }
            answer = await ask(
                client,
                [
                    QUESTION,
                    {"role": "assistant", "content": asked.content},
                    {"role": "user", "content": [result]},
                ],
                is_streamed,
            )
            count = await client.messages.count_tokens(
                model="fake", messages=[QUESTION], tools=TOOLS
            )

    assert (thinking.type, thinking.thinking) == ("thinking", "Both.")
    assert text.text == "I look."
    assert (call.name, call.input) == ("get_weather", {"city": "Košice"})
    assert asked.stop_reason == "tool_use"
    assert answer.stop_reason == "end_turn"
    assert [block.text for block in answer.content] == ["It rains there."]
    assert answer.usage.output_tokens == len("It rains there.")
    assert count.input_tokens == len(QUESTION["content"]) + 2
    assert engine.chats[1][1]["tool_calls"] == [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Košice"}},
        }
    ]
    assert engine.chats[1][1]["reasoning_content"] == "Both."
    assert engine.chats[1][2] == {
        "role": "tool",
        "content": "rain",
        "tool_call_id": call.id,
    }


async def test_errors_are_the_clients_own() -> None:
    """
    Statuses, types and events of errors raise what the package has for them.
    """
    engine = FakeEngine(("ab", "cd"))
    engine.free_steps = 1
    engine.gate.clear()
    given: dict[str, Any] = {"model": "fake", "max_tokens": 9, "messages": [QUESTION]}
    async with client_of(engine, SETTINGS) as server:
        base_url = str(server.make_url("/"))
        make = anthropic.AsyncAnthropic
        async with make(base_url=base_url, api_key="no", max_retries=0) as client:
            with pytest.raises(anthropic.AuthenticationError):
                await client.messages.create(**given)
        async with make(base_url=base_url, api_key="k", max_retries=0) as client:
            with pytest.raises(anthropic.NotFoundError, match="not served"):
                await client.messages.create(**{**given, "model": "claude"})
            stream = await client.messages.create(**given, stream=True)
            with pytest.raises(anthropic.APIStatusError, match="broken"):  # noqa: PT012
                async for event in stream:
                    if event.type == "content_block_delta":
                        engine.fail("broken")
