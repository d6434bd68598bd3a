"""Tools, calls and template arguments of a chat: what reaches the template, and what is
refused."""

import json
import math
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.config.options import build
from hookline.exceptions import ConfigError
from hookline_server.ignored import IGNORED
from hookline_server.replies.settings import (
    ReplySettings,
    checked_arguments,
)
from hookline_server.settings import ServerSettings
from hookline_testing.essential import examples
from hookline_testing.scripted_server import FakeEngine, client_of

WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SERVER = ServerSettings(replies=ReplySettings(tool_call_parser="hermes"))
TOOLS = [{"type": "function", "function": WEATHER}]
HELLO = {"role": "user", "content": "Hi"}


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


async def answered(engine: FakeEngine, status: int = 200, **fields: object) -> Any:
    body = {"model": "fake", "messages": [HELLO], **fields}
    data = BytesIO(json.dumps(body).encode())  # aiohttp warns of long bytes
    async with client_of(engine) as client:
        response = await client.post("/v1/chat/completions", data=data)
        assert response.status == status, await response.text()
        return await response.json()


def call(arguments: object, **fields: object) -> dict[str, object]:
    function = {"name": "get_weather", "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function, **fields}


async def test_history_with_calls_reaches_the_template() -> None:
    """
    Arguments are objects there, content is never null, and a result keeps its id.
    """
    engine = FakeEngine()
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call('{"city": "x"}')],
    }
    result = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}

    await answered(engine, messages=[HELLO, asked, result])

    [[_, assistant, tool]] = engine.chats
    assert assistant == {
        "role": "assistant",
        "content": "",
        "tool_calls": [call({"city": "x"})],
    }
    assert tool == {"role": "tool", "tool_call_id": "call_1", "content": "rain"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", {}),
        (None, {}),
        ("null", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', {}),
        ("[1]", {}),
        ('"Paris"', {}),
        ([1], {}),
        (5, {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": -Infinity, "b": "c\n\td"}', {"a": -math.inf, "b": "c\n\td"}),
        ('{"a": "\\ud83d"}', {"a": "?"}),
        ('{"a": [18446744073709551616]}', {"a": ["18446744073709551616"]}),
        ({"a": {"b": 18446744073709551616}}, {"a": {"b": "18446744073709551616"}}),
    ],
)
async def test_arguments_are_an_object_whatever_a_model_has_written(
    given: object, expected: object
) -> None:
    """
    Templates iterate over them, and the conversation goes on all the same.
    """
    engine = FakeEngine()

    await answered(
        engine, messages=[HELLO, {"role": "assistant", "tool_calls": [call(given)]}]
    )

    assert engine.chats[0][1]["tool_calls"] == [call(expected)]


async def test_what_is_left_out_of_past_calls_is_counted() -> None:
    """
    Cut arguments, and calls of other kinds, are named in the response.
    """
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "p", "input": "x"}}
    calls = [call('{"city": '), custom, call("{}")]

    async with client_of(FakeEngine()) as client:
        body = {"messages": [HELLO, {"role": "assistant", "tool_calls": calls}]}
        response = await client.post("/v1/chat/completions", json=body)
        assert client.app is not None
        stats = client.app[IGNORED].stats()

    assert response.headers["X-Hookline-Ignored"] == "call.arguments, call.custom"
    assert stats.elements == (
        ("chat", "call.arguments", 1),
        ("chat", "call.other", 1),
    )


async def test_names_and_ids_of_past_calls_may_be_long() -> None:
    """
    A model may have written them, too.
    """
    engine = FakeEngine()
    name = "f" * 300
    past = {"id": name, "type": "function", "function": {"name": name}}
    result = {"role": "tool", "tool_call_id": name, "content": None}

    await answered(
        engine, messages=[HELLO, {"role": "assistant", "tool_calls": [past]}, result]
    )

    [[_, assistant, tool]] = engine.chats
    function = {"name": name, "arguments": {}}
    assert assistant["tool_calls"] == [
        {"id": name, "type": "function", "function": function}
    ]
    assert tool == {"role": "tool", "content": "", "tool_call_id": name}


async def test_tools_that_the_server_would_have_to_run_are_left_out() -> None:
    """
    The functions beside them are there; the response names the others.
    """
    engine = FakeEngine()
    others = [{"type": "web_search"}, {"type": "custom", "custom": {"name": "p"}}]

    async with client_of(engine, SERVER) as client:
        body = {"messages": [HELLO], "tools": [*others, *TOOLS]}
        response = await client.post("/v1/chat/completions", json=body)
        assert response.status == 200
        required = {**body, "tools": others, "tool_choice": "required"}
        refused = await client.post("/v1/chat/completions", json=required)

    assert engine.variables == [{"tools": TOOLS}]
    assert response.headers["X-Hookline-Ignored"] == "tool.web_search, tool.custom"
    assert refused.status == 400  # a call was asked for, which there cannot be


async def test_former_names_become_tools() -> None:
    """
    `function_call` in history is a tool call, and the role function is tool.
    """
    engine = FakeEngine()
    asked = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "get_weather", "arguments": "{}"},
    }
    result = {"role": "function", "name": "get_weather", "content": "rain"}

    await answered(engine, messages=[HELLO, asked, result])

    [[_, assistant, tool]] = engine.chats
    assert assistant["tool_calls"] == [
        {"type": "function", "function": {"name": "get_weather", "arguments": {}}}
    ]
    assert tool == {"role": "tool", "name": "get_weather", "content": "rain"}


async def test_reasoning_and_refusals_of_history_reach_the_template() -> None:
    """
    Reasoning has the names that templates know; a refusal is the message's text.
    """
    engine = FakeEngine()
    part = {"type": "refusal", "refusal": "No."}

    await answered(
        engine,
        messages=[
            {"role": "assistant", "content": "b", "reasoning_content": "a"},
            {"role": "assistant", "content": [part]},
            {"role": "assistant", "content": None, "refusal": "Never."},
            {"role": "assistant", "reasoning": "a", "tool_calls": [call("{}")]},
        ],
    )

    thought, part_refusal, refusal, with_calls = engine.chats[0]
    assert (thought["reasoning_content"], thought["reasoning"]) == ("a", "a")
    assert "thinking" not in thought
    assert (part_refusal["content"], refusal["content"]) == ("No.", "Never.")
    assert with_calls["thinking"] == "a"


async def test_variables_reach_the_template() -> None:
    """
    Arguments, documents and the effort; no reasoning switches it off by name.
    """
    engine = FakeEngine()

    await answered(
        engine,
        chat_template_kwargs={"enable_thinking": True, "custom": [1]},
        documents=[{"title": "t", "text": "x"}],
        reasoning_effort="none",
    )

    assert engine.variables == [
        {
            "enable_thinking": True,
            "thinking": False,
            "custom": [1],
            "documents": [{"title": "t", "text": "x"}],
            "reasoning_effort": "none",
        }
    ]


async def test_the_servers_arguments_are_defaults() -> None:
    """
    A request's own prevail, one by one; /tokenize has them, too.
    """
    engine = FakeEngine()
    defaults = checked_arguments({"enable_thinking": False, "a": 1})
    replies = ReplySettings(default_chat_template_kwargs=defaults)
    own = {"messages": [HELLO], "chat_template_kwargs": {"enable_thinking": True}}

    async with client_of(engine, ServerSettings(replies=replies)) as client:
        for path in ("/v1/chat/completions", "/tokenize"):
            response = await client.post(path, json={"model": "fake", **own})
            assert response.status == 200

    assert engine.variables == [{"enable_thinking": True, "a": 1}] * 2


@pytest.mark.parametrize("text", ["[]", "{", '{"tools": 1}', '{"bos_token": ""}'])
def test_wrong_defaults_end_the_start(text: str) -> None:
    """
    The error names the option.
    """
    with pytest.raises(ConfigError) as caught:
        build(ReplySettings, {"default_chat_template_kwargs": text})

    assert caught.value.option == "default-chat-template-kwargs"


@pytest.mark.parametrize("choice", ["none", None])
async def test_tools_that_must_not_be_called_are_not_shown(choice: object) -> None:
    """
    With the choice none, or without tools, the template gets none.
    """
    engine = FakeEngine()
    tools = TOOLS if choice == "none" else []

    await answered(engine, tools=tools, tool_choice=choice)

    assert engine.variables == [{}]


async def test_tokens_of_a_chat_with_tools_can_be_counted() -> None:
    """
    /tokenize takes tools and template arguments, too.
    """
    engine = FakeEngine()
    body = {"messages": [HELLO], "tools": TOOLS, "chat_template_kwargs": {"a": 1}}

    async with client_of(engine) as client:
        response = await client.post("/tokenize", json=body)
        assert response.status == 200

    assert engine.variables == [{"a": 1, "tools": TOOLS}]


def tool(**function: object) -> list[object]:
    return [{"type": "function", "function": function}]


ALLOWED = "tool_choice.allowed_tools"


def allowed(mode: str, *names: str) -> dict[str, object]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


async def test_only_allowed_tools_are_shown() -> None:
    """
    The model is not told of the others, and must call one if the mode says so.
    """
    engine = FakeEngine()
    engine.facts = replace(engine.facts, structured_outputs="fake")
    others = [{"type": "function", "function": {"name": each}} for each in ("b", "c")]
    body: dict[str, object] = {"messages": [HELLO], "tools": [*others, *TOOLS]}

    async with client_of(engine, SERVER) as client:
        for mode in ("auto", "required"):
            body["tool_choice"] = allowed(mode, "get_weather")
            response = await client.post("/v1/chat/completions", json=body)
            assert response.status == 200

    assert engine.variables == [{"tools": TOOLS}] * 2
    first, second = (each.params.structured_outputs for each in engine.streams)
    assert first is None
    assert second is not None
    assert "get_weather" in str(second.structural_tag)
    assert '"b"' not in str(second.structural_tag)


async def test_result_of_a_tool_may_be_a_list_of_texts() -> None:
    """
    As content of any other role.
    """
    parts = [{"type": "text", "text": "It"}, {"type": "text", "text": "rains."}]
    result = {"role": "tool", "tool_call_id": "call_1", "content": parts}
    past = {"role": "assistant", "content": None, "tool_calls": [call("{}")]}
    engine = FakeEngine()

    await answered(engine, messages=[HELLO, past, result])

    [messages] = engine.chats
    assert messages[-1] == {
        "role": "tool",
        "content": "It\nrains.",
        "tool_call_id": "call_1",
    }


BAD: list[tuple[dict[str, object], str]] = [
    ({"tools": "all"}, "tools"),
    ({"tools": [1]}, "tools[0]"),
    ({"tools": [{"type": "web_search"}, *tool()]}, "tools[1].function.name"),
    ({"tools": [*TOOLS, {"type": "function"}]}, "tools[1].function"),
    ({"tools": tool()}, "tools[0].function.name"),
    ({"tools": tool(name=5)}, "tools[0].function.name"),
    ({"tools": tool(name="")}, "tools[0].function.name"),
    ({"tools": tool(name="a b")}, "tools[0].function.name"),
    ({"tools": tool(name="a" * 129)}, "tools[0].function.name"),
    ({"tools": tool(name="a", parameters=[])}, "tools[0].function.parameters"),
    ({"tools": tool(name="a", parameters={"a": nested(70)})}, "tools"),
    ({"tools": tool(name="a", description="d" * 2**20)}, "tools"),
    ({"tools": [*TOOLS, *TOOLS]}, "tools[1].function.name"),
    ({"tools": tool(name="a") * 1025}, "tools"),
    ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": 5}, "tool_choice"),
    (
        {"tools": TOOLS, "tool_choice": {"type": "x", "function": {"name": "a"}}},
        "tool_choice.type",
    ),
    ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice.function"),
    (
        {"tools": TOOLS, "tool_choice": {"function": {"name": "other"}}},
        "tool_choice.function.name",
    ),
    ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}, f"{ALLOWED}"),
    ({"tools": TOOLS, "tool_choice": allowed("any")}, f"{ALLOWED}.mode"),
    ({"tools": TOOLS, "tool_choice": allowed("auto")}, f"{ALLOWED}.tools"),
    (
        {"tools": TOOLS, "tool_choice": allowed("auto", "x")},
        f"{ALLOWED}.tools[0].function.name",
    ),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"functions": [WEATHER], "tools": TOOLS}, "functions"),
    ({"functions": [{}]}, "functions[0].name"),
    ({"functions": [WEATHER], "function_call": {"name": "x"}}, "function_call.name"),
    ({"functions": [WEATHER], "function_call": "required"}, "function_call"),
    ({"function_call": {"name": "x"}}, "function_call"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
    ({"chat_template_kwargs": {"bos_token": ""}}, "chat_template_kwargs.bos_token"),
    ({"chat_template_kwargs": {"__class__": 1}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"a": nested(17)}}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"a": "b" * 2**20}}, "chat_template_kwargs"),
    ({"documents": ["text"]}, "documents[0]"),
    ({"documents": [{}] * 1025}, "documents"),
    ({"reasoning_effort": "much"}, "reasoning_effort"),
]
CALL = ".tool_calls[0]"
ARGUMENTS = f"{CALL}.function.arguments"
BAD_CALLS: list[tuple[object, str]] = [
    (5, CALL),
    ({"id": "a"}, f"{CALL}.function"),
    (call({"a": nested(70)}), ARGUMENTS),
    (call(f'{{"a": [{"1," * 2**17}1]}}'), ARGUMENTS),
]
BAD_MESSAGES: list[tuple[dict[str, object], str]] = [
    ({"role": "user", "content": "a", "tool_calls": [call("{}")]}, ".tool_calls"),
    ({"role": "assistant", "function_call": {"a": 1}}, ".function_call.name"),
    ({"role": "assistant", "content": [{"type": "refusal"}]}, ".content[0].refusal"),
    ({"role": "user"}, ".content"),
    ({"role": "system", "name": "a"}, ".content"),
]
BAD_MESSAGES += [
    ({"role": "assistant", "tool_calls": [each]}, place) for each, place in BAD_CALLS
]
BAD += [
    ({"messages": [message]}, f"messages[0]{place}") for message, place in BAD_MESSAGES
]


@pytest.mark.parametrize(("fields", "param"), BAD, ids=range(len(BAD)))
async def test_wrong_field_is_named(fields: dict[str, object], param: str) -> None:
    """
    Each mistake is one 400 that names its field, before anything is rendered.
    """
    engine = FakeEngine()

    error = (await answered(engine, 400, **fields))["error"]

    assert error["param"] == param
    assert param in error["message"]
    assert not engine.chats


async def test_deep_json_is_a_400() -> None:
    """
    Nesting that no recursion survives ends in one error.
    """
    deep = "[" * 100_000 + "]" * 100_000
    body = f'{{"model": "fake", "messages": {json.dumps([HELLO])}, "tools": {deep}}}'

    async with client_of(FakeEngine()) as client:
        response = await client.post("/v1/chat/completions", data=body)

    assert response.status == 400


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "f", "auto", "required", "function", "object", "{}", "\0é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "function", "name", "parameters", "arguments", "id"),
                    *("role", "content", "tool_calls", "function_call", "x"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELDS = (
    *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
    *("chat_template_kwargs", "documents", "reasoning_effort", "include_reasoning"),
)


@settings(deadline=None, max_examples=examples(150))
@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
    message=st.dictionaries(
        st.sampled_from(["content", "tool_calls", "function_call", "refusal"]), JSON
    ),
    near=st.booleans(),
)
async def test_any_json_is_answered(
    fields: dict[str, object], message: dict[str, object], near: bool
) -> None:
    """
    Whatever stands in these fields, it is served, or one 400 that says what is wrong.
    """
    if near:  # further than arbitrary JSON gets
        fields = {**fields, "tools": [{"function": fields.get("tools")}, *TOOLS]}
    messages = [HELLO, {"role": "assistant", **message}]
    body = {"model": "fake", "messages": messages, **fields}

    async with client_of(FakeEngine(), SERVER) as client:
        response = await client.post("/v1/chat/completions", json=body)
        answer = await response.json()

    assert response.status == 200 or answer["error"]["message"]
    assert response.status in (200, 400)
