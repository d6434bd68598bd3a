"""`/v1/messages` on a scripted engine: what requests become, how replies are told."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
BODY: dict[str, Any] = {"model": "fake", "max_tokens": 9, "messages": HELLO}
PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
TOOLS = [
    {
        "name": "f",
        "description": "Tells.",
        "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
    {"type": "custom", "name": "g", "input_schema": {"type": "object"}},
]
THOUGHT = ("<think>", "\nHm.\n", "</think>\n\n")
CALL = ("I look.", '<tool_call>{"name": "f", "argu', 'ments": {"a": "b"}}</tool_call>')
SECOND = ('\n<tool_call>{"name": "g"}', "</tool_call>")


def engine_of(*script: str, reason: FinishReason = FinishReason.STOP) -> FakeEngine:
    engine = FakeEngine(script, finish_reason=reason)
    engine.facts = dataclasses.replace(
        engine.facts, model=dataclasses.replace(engine.facts.model, max_model_len=1024)
    )
    return engine


async def answered(
    engine: FakeEngine, *, path: str = "/v1/messages", status: int = 200, **fields: Any
) -> Any:
    async with client_of(engine, PARSERS) as client:
        response = await client.post(path, json={**BODY, **fields})
        answer = await response.json()
    assert response.status == status, answer
    return answer


async def streamed(engine: FakeEngine, **fields: Any) -> list[Any]:
    """Returns the events; each has the name that is the type of its data."""
    async with client_of(engine, PARSERS) as client:
        body = {**BODY, "stream": True, **fields}
        response = await client.post("/v1/messages", json=body)
        text = await response.text()
    assert response.status == 200, text
    assert text.endswith("\n\n")
    events = []
    for event in text[:-2].split("\n\n"):
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


async def test_a_message() -> None:
    """
    The parts of the prompt that were cached are counted apart from the others.
    """
    engine = engine_of("Hell", "o")
    engine.cached_tokens = 1

    answer = await answered(engine)

    assert re.fullmatch("msg_[0-9a-f]{32}", answer.pop("id"))
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": len("Hi\n>") - 1,
            "cache_read_input_tokens": 1,
            "cache_creation_input_tokens": 0,
            "output_tokens": 5,
        },
    }


async def test_parameters_reach_the_engine() -> None:
    """
    `metadata` and what only Anthropic's servers have a use for are ignored.
    """
    engine = engine_of("a")
    await answered(
        engine,
        stop_sequences=["x", "yz"],
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        metadata={"user_id": "someone"},
        service_tier="auto",
        thinking={"type": "enabled", "budget_tokens": 3},
        priority=2,
        cache_salt="salt",
    )

    [stream] = engine.streams
    params = stream.params
    assert (params.max_tokens, params.stop) == (9, ("x", "yz"))
    assert (params.temperature, params.top_p, params.top_k) == (0.5, 0.25, 7)
    assert params.extra_args == {"thinking_token_budget": 3}
    assert (stream.facts.operation, stream.facts.priority) == ("chat", 2)
    assert stream.cache_salt == "salt"
    assert engine.variables == [{"enable_thinking": True, "thinking": True}]


async def test_a_conversation_reaches_the_template() -> None:
    """
    Blocks become what the chat API would pass on; neighbours of a role are one turn.
    """
    engine = engine_of("a")
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1]}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    text = {"type": "text", "text": "Look", "cache_control": {"type": "ephemeral"}}
    await answered(
        engine,
        system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
        messages=[
            *HELLO,
            {"role": "user", "content": [text]},
            {"role": "assistant", "content": [thinking, {**text, "text": "So."}, call]},
            {
                "role": "user",
                "content": [
                    {**result, "content": [{"type": "text", "text": "rain"}]},
                    {**result, "tool_use_id": "toolu_2", "content": "sun"},
                    {**result, "tool_use_id": "toolu_3"},
                    {**text, "text": "And?"},
                ],
            },
        ],
        tools=TOOLS,
    )

    function = {"name": "f", "arguments": {"a": [1]}}
    assert engine.chats == [
        [
            {"role": "system", "content": "Be\nbrief."},
            {"role": "user", "content": "Hi\nLook"},
            {
                "role": "assistant",
                "content": "So.",
                "reasoning_content": "Hm.",
                "reasoning": "Hm.",
                "tool_calls": [
                    {"id": "toolu_1", "type": "function", "function": function}
                ],
            },
            {"role": "tool", "content": "rain", "tool_call_id": "toolu_1"},
            {"role": "tool", "content": "sun", "tool_call_id": "toolu_2"},
            {"role": "tool", "content": "", "tool_call_id": "toolu_3"},
            {"role": "user", "content": "And?"},
        ]
    ]
    [variables] = engine.variables
    tools: Any = variables["tools"]
    first, second = tools
    assert first["function"] == {
        "name": "f",
        "description": "Tells.",
        "parameters": TOOLS[0]["input_schema"],
    }
    assert second["function"]["name"] == "g"


async def test_count_tokens_counts_the_same_prompt() -> None:
    """
    It needs no `max_tokens`, and counts what does not fit into the context, too.
    """
    engine = engine_of("a")
    messages = [{"role": "user", "content": "x" * 2000}]
    given = {"system": "Be brief.", "messages": messages, "tools": TOOLS}

    async with client_of(engine, PARSERS) as client:
        path = "/v1/messages/count_tokens"
        response = await client.post(path, json={"model": "fake", **given})

        assert response.status == 200
        assert await response.json() == {"input_tokens": len("Be brief.\n\n>") + 2000}
    assert len(engine.variables[0]["tools"]) == len(TOOLS)  # type: ignore[arg-type]
    assert not engine.streams


@pytest.mark.parametrize(
    ("reason", "stop", "script", "expected"),
    [
        (FinishReason.STOP, None, CALL, ("tool_use", None)),
        (FinishReason.STOP, 7, ("a",), ("end_turn", None)),
        (FinishReason.STOP, "x", CALL, ("stop_sequence", "x")),
        (FinishReason.LENGTH, None, CALL, ("max_tokens", None)),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_stop_reasons(
    reason: FinishReason,
    stop: str | int | None,
    script: Sequence[str],
    expected: tuple[str, str | None],
    is_streamed: bool,
) -> None:
    """
    What cut a reply short prevails over its calls, as they may not be complete.
    """
    engine = engine_of(*script, reason=reason)
    engine.stop_reason = stop

    if is_streamed:
        end = (await streamed(engine, tools=TOOLS))[-2]["delta"]
    else:
        end = await answered(engine, tools=TOOLS)

    assert (end["stop_reason"], end["stop_sequence"]) == expected


async def test_blocks_of_a_whole_message() -> None:
    """
    Reasoning, text and calls come in their order; inputs are objects.
    """
    answer = await answered(engine_of(*THOUGHT, *CALL, *SECOND), tools=TOOLS)

    thinking, text, *calls = answer["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    assert text == {"type": "text", "text": "I look."}
    ids = [call.pop("id") for call in calls]
    assert all(re.fullmatch("toolu_[0-9a-f]{24}", each) for each in ids)
    assert len(set(ids)) == 2
    assert calls == [
        {"type": "tool_use", "name": "f", "input": {"a": "b"}},
        {"type": "tool_use", "name": "g", "input": {}},
    ]


async def test_calls_that_are_cut_short_are_closed() -> None:
    """
    The input has to be an object, so that what the model wrote becomes one.
    """
    engine = engine_of(
        '<tool_call>{"name": "f", "arguments": {"a": "b', reason=FinishReason.LENGTH
    )

    answer = await answered(engine, tools=TOOLS)

    [call] = answer["content"]
    assert call["input"] == {"a": "b"}
    assert answer["stop_reason"] == "max_tokens"


async def test_one_call_at_most() -> None:
    """
    `disable_parallel_tool_use` leaves out all calls but the first.
    """
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    engine = engine_of(*CALL, *SECOND)

    answer = await answered(engine, tools=TOOLS, tool_choice=choice)

    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "f"}])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_forced_calls(choice: dict[str, str], is_streamed: bool) -> None:
    """
    A grammar forces them, and the stop reason is that of calls in both cases.
    """
    script = '<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'
    engine = engine_of(script)
    engine.facts = dataclasses.replace(engine.facts, structured_outputs="fake")
    fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": choice}

    if is_streamed:
        events = await streamed(engine, **fields)
        deltas = [each["delta"] for each in events if "delta" in each]
        json_text = "".join(each.get("partial_json", "") for each in deltas)
        found, reason = json.loads(json_text), deltas[-1]["stop_reason"]
    else:
        answer = await answered(engine, **fields)
        [call] = answer["content"]
        found, reason = call["input"], answer["stop_reason"]

    assert (found, reason) == ({"a": "b"}, "tool_use")
    assert engine.streams[0].params.structured_outputs is not None

    thinking = {"type": "enabled", "budget_tokens": 5}
    fields["thinking"] = thinking
    thinks = engine_of("<think>Hm.", "</think>", script)
    thinks.facts = engine.facts
    answer = await answered(thinks, **fields)
    assert [each["type"] for each in answer["content"]] == ["thinking", "tool_use"]


@pytest.mark.parametrize("field", ["output_config", "output_format"])
async def test_text_has_the_format_that_the_client_asks_for(field: str) -> None:
    """
    By its present name and the former one, behind reasoning; a bad one is a 400.
    """
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    engine = engine_of("<think>Hm.</think>", '{"a": 1}')
    engine.facts = dataclasses.replace(engine.facts, structured_outputs="fake")

    def fields(**given: object) -> dict[str, Any]:
        return {field: {"format": given} if field == "output_config" else given}

    name = "output_config.format" if field == "output_config" else field
    answer = await answered(engine, **fields(type="json_schema", schema=schema))
    errors = [
        (await answered(engine, status=400, **fields(**wrong)))["error"]["message"]
        for wrong in ({"type": "x"}, {"type": "json_schema"}, {"type": 5})
    ]
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"items": deep}
    wrong = fields(type="json_schema", schema=deep)
    errors.append((await answered(engine, status=400, **wrong))["error"]["message"])

    assert answer["content"][1] == {"type": "text", "text": '{"a": 1}'}
    grammar = engine.streams[0].params.structured_outputs
    assert grammar is not None
    assert json.loads(str(grammar.json)) == schema
    assert grammar.reasoning is not None
    assert all(error.startswith(name) for error in errors), errors


async def test_without_tools_calls_are_text() -> None:
    """
    `none` hides the tools from the model; what looks like a call stays text.
    """
    engine = engine_of(*CALL)

    answer = await answered(engine, tools=TOOLS, tool_choice={"type": "none"})

    assert answer["content"] == [{"type": "text", "text": "".join(CALL)}]
    assert engine.variables == [{}]


async def test_events_of_a_stream() -> None:
    """
    Each block begins, grows and ends before the next one, and the usage comes last.
    """
    engine = engine_of(*THOUGHT, *CALL, *SECOND)
    engine.cached_tokens = 1

    start, ping, *events, delta, stop = await streamed(engine, tools=TOOLS)

    message = start["message"]
    assert re.fullmatch("msg_[0-9a-f]{32}", message.pop("id"))
    usage = {
        "input_tokens": len("Hi\n>") - 1,
        "cache_read_input_tokens": 1,
        "cache_creation_input_tokens": 0,
    }
    assert start["type"] == "message_start"
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 0},
    }
    assert ping == {"type": "ping"}
    for event in events:
        event.get("content_block", {}).pop("id", None)
    call = {"type": "tool_use", "input": {}}
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    assert joined_deltas(events) == [
        {"type": "content_block_start", "index": 0, "content_block": thinking},
        (0, "thinking_delta", "Hm."),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": ""},
        },
        (1, "text_delta", "I look."),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {**call, "name": "f"},
        },
        (2, "input_json_delta", '{"a": "b"}'),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "content_block_start",
            "index": 3,
            "content_block": {**call, "name": "g"},
        },
        (3, "input_json_delta", "{}"),
        {"type": "content_block_stop", "index": 3},
    ]
    tokens = sum(map(len, (*THOUGHT, *CALL, *SECOND)))
    assert delta == {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {**usage, "output_tokens": tokens},
    }
    assert stop == {"type": "message_stop"}


def joined_deltas(events: Sequence[Any]) -> list[Any]:
    """Returns the events, with neighbouring deltas of a block as one."""
    found: list[Any] = []
    for event in events:
        if event["type"] != "content_block_delta":
            found.append(event)
            continue
        kind, text = event["delta"].values()
        if isinstance(found[-1], tuple):
            found[-1] = (event["index"], kind, found[-1][2] + text)
        else:
            found.append((event["index"], kind, text))
    return found


async def test_text_is_streamed_as_it_comes() -> None:
    """
    A delta has the text of one step, and a reply without text has no block.
    """
    events = await streamed(engine_of("Hell", "o"))
    deltas = [each["delta"] for each in events if each["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "text_delta", "text": "Hell"},
        {"type": "text_delta", "text": "o"},
    ]

    events = await streamed(engine_of(""))
    assert [each["type"] for each in events] == [
        *("message_start", "ping", "message_delta", "message_stop")
    ]
