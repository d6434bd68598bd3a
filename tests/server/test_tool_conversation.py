"""A conversation of two turns with tools, streamed and not, as clients hold it.

One client joins the deltas as OpenAI's documentation says; the other is the package
`openai`, where it is installed.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

Message = dict[str, Any]
Ask = Callable[[Any, list[Message], bool], Awaitable[tuple[Message, str]]]

SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
            },
        },
    }
]
FIRST = (
    *("<think>", "\nBoth", ".\n</th", "ink>\n\n", "I look", ".\n<tool_call>\n"),
    *('{"name": "get', '_weather", "argu', 'ments": {"city": "Pa', 'ris"}}\n'),
    *("</tool_call>\n<tool_", 'call>\n{"name": "get_weather", "arguments": '),
    *('{"city": "Košice"}}', "\n</tool_call>"),
)
SECOND = ("<think>\n", "\n</think>\n\n", "It rains ", "in both", ".")
QUESTION = {"role": "user", "content": "Does it rain in Paris and Košice?"}


async def ask_by_hand(
    client: Any, messages: list[Message], is_streamed: bool
) -> tuple[Message, str]:
    """Returns the message and its finish reason."""
    body = {"model": "fake", "messages": messages, "tools": TOOLS}
    if not is_streamed:
        response = await client.post("/v1/chat/completions", json=body)
        [choice] = (await response.json())["choices"]
        return choice["message"], choice["finish_reason"]
    response = await client.post("/v1/chat/completions", json={**body, "stream": True})
    message: Message = {"content": "", "reasoning_content": "", "tool_calls": []}
    reason = ""
    for event in (await response.text()).strip().split("\n\n")[:-1]:
        [choice] = json.loads(event.removeprefix("data: "))["choices"]
        delta, reason = choice["delta"], choice["finish_reason"]
        message["role"] = delta.get("role", message.get("role"))
        for name in ("content", "reasoning_content"):
            message[name] += delta.get(name, "")
        for call in delta.get("tool_calls", []):
            if call["index"] == len(message["tool_calls"]):
                message["tool_calls"].append(call)
            else:
                function = message["tool_calls"][call["index"]]["function"]
                function["arguments"] += call["function"]["arguments"]
    return message, reason


async def ask_by_openai(
    client: Any, messages: list[Message], is_streamed: bool
) -> tuple[Message, str]:
    """Returns the message and its finish reason."""
    openai = pytest.importorskip("openai")
    base_url = str(client.make_url("/v1"))
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as its:
        completions = its.chat.completions
        given = {"model": "fake", "messages": messages, "tools": TOOLS}
        if not is_streamed:
            completion = await completions.create(**given)
        else:
            async with completions.stream(**given) as stream:
                completion = await stream.get_final_completion()
    [choice] = completion.choices
    return choice.message.to_dict(), choice.finish_reason


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("ask", [ask_by_hand, ask_by_openai])
async def test_two_turns_with_tools(ask: Ask, is_streamed: bool) -> None:
    """
    The client gets two calls, returns their results, and gets the answer.

    What it sends back reaches the chat template with ids, objects and reasoning.
    """
    engine = FakeEngine(FIRST, finish_reason=FinishReason.STOP)
    async with client_of(engine, SETTINGS) as client:
        asked, first_reason = await ask(client, [QUESTION], is_streamed)
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
            for call in asked["tool_calls"]
        ]
        engine.script = SECOND
        turns = [QUESTION, asked, *results]
        answer, second_reason = await ask(client, turns, is_streamed)

    assert (first_reason, second_reason) == ("tool_calls", "stop")
    assert asked["content"] == "I look."
    assert asked["reasoning_content"] == "Both."
    assert [call["function"]["name"] for call in asked["tool_calls"]] == [
        "get_weather",
        "get_weather",
    ]
    assert [
        json.loads(call["function"]["arguments"]) for call in asked["tool_calls"]
    ] == [
        {"city": "Paris"},
        {"city": "Košice"},
    ]
    assert answer["content"] == "It rains in both."
    assert not answer.get("tool_calls")
    chat: list[Any] = engine.chats[-1]
    _, shown, *told = chat
    assert [each["id"] for each in shown["tool_calls"]] == [
        each["tool_call_id"] for each in told
    ]
    assert shown["tool_calls"][0]["function"]["arguments"] == {"city": "Paris"}
    assert shown["reasoning_content"] == "Both."
    assert engine.variables[-1]["tools"] == TOOLS
