"""Calls that a request forces: the grammar that the engine gets, and the answer."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hookline.request import FinishReason
from hookline.structured_outputs import ReasoningSpan
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of
from hookline_testing.server_process import serving

HELLO = [{"role": "user", "content": "Hi"}]
CITY = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "near": {"$ref": "#"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"enum": ["Paris", "Oslo"]}},
}
TIME = {
    "type": "object",
    "properties": {"hour": {"type": "integer"}},
    "required": ["hour"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "time", "parameters": TIME}},
]
NAMED = {"type": "function", "function": {"name": "weather"}}
SETTINGS = ServerSettings(replies=ReplySettings(reasoning_parser="deepseek_r1"))
BAD_SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$(["}}},
    {"type": "something", "properties": 5},
    {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
]
TWO_CALLS = (
    *('[{"na', 'me":"weather","parameters":{"city"', ':"Oslo"}},{"name":"time","pa'),
    *('rameters":{"hour":', "5}}]"),
)


def engine_of(
    *script: str, reason: FinishReason = FinishReason.STOP, backend: str = "fake"
) -> FakeEngine:
    engine = FakeEngine(("Hm.", "</think>", *script), finish_reason=reason)
    engine.facts = replace(FACTS, structured_outputs=backend)
    return engine


async def asked(engine: FakeEngine, status: int = 200, **fields: object) -> Any:
    body = {"model": "fake", "messages": HELLO, "tools": TOOLS, **fields}
    async with client_of(engine, SETTINGS) as client:
        response = await client.post("/v1/chat/completions", json=body)
        text = await response.text()
    assert response.status == status, text
    if not fields.get("stream"):
        return json.loads(text)
    events = text.strip().split("\n\n")[:-1]
    return [json.loads(event.removeprefix("data: ")) for event in events]


def schema_of(engine: FakeEngine) -> Any:
    grammar = engine.streams[0].params.structured_outputs
    assert grammar is not None
    assert isinstance(grammar.json, str)
    return json.loads(grammar.json)


def span_of(engine: FakeEngine) -> ReasoningSpan | None:
    grammar = engine.streams[0].params.structured_outputs
    assert grammar is not None
    return grammar.reasoning


async def test_named_function_gets_its_arguments() -> None:
    """
    The text is the arguments alone, by the function's own schema; the reason is stop.
    """
    engine = engine_of('{"city"', ':"Oslo"', "}")

    [choice] = (await asked(engine, tool_choice=NAMED))["choices"]

    assert schema_of(engine) == CITY
    assert choice["message"]["reasoning_content"] == "Hm."
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "stop"


async def test_model_reasons_before_what_it_must_write() -> None:
    """
    The grammar begins behind the reasoning, unless the server's options say otherwise.
    """
    engine, other = engine_of('{"a": 1}'), engine_of()
    strict = FakeEngine(['{"city":"Oslo"}'])
    strict.facts = replace(FACTS, structured_outputs="fake", enable_in_reasoning=True)
    format_ = {"type": "json_object"}

    answer = await asked(engine, tools=None, response_format=format_)
    await asked(other, tool_choice="required")
    [forced] = (await asked(strict, tool_choice=NAMED))["choices"]

    [choice] = answer["choices"]
    assert choice["message"]["content"] == '{"a": 1}'
    assert span_of(engine) == span_of(other) == ReasoningSpan(end="</think>")
    assert span_of(strict) is None
    assert forced["message"]["tool_calls"][0]["function"]["name"] == "weather"


async def test_required_calls_are_a_list_of_any_tools() -> None:
    """
    Each schema keeps its references; at least one call is made, and only these.
    """
    engine = engine_of(*TWO_CALLS)

    [choice] = (await asked(engine, tool_choice="required"))["choices"]

    schema = schema_of(engine)
    assert (schema["type"], schema["minItems"]) == ("array", 1)
    assert "maxItems" not in schema
    first, second = schema["items"]["anyOf"]
    assert first["properties"]["name"] == {"const": "weather"}
    assert second["properties"]["parameters"] == {"$ref": "#/$defs/tool1"}
    moved = schema["$defs"]["tool0"]["properties"]
    assert moved["city"] == {"$ref": "#/$defs/tool0/$defs/City"}
    assert moved["near"] == {"$ref": "#/$defs/tool0"}
    assert [call["function"] for call in choice["message"]["tool_calls"]] == [
        {"name": "weather", "arguments": '{"city":"Oslo"}'},
        {"name": "time", "arguments": '{"hour":5}'},
    ]
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "tool_calls"


async def test_streamed_calls_come_in_pieces() -> None:
    """
    As those that a model chooses itself.
    """
    chunks = await asked(engine_of(*TWO_CALLS), tool_choice="required", stream=True)

    calls = [
        call
        for chunk in chunks
        for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert [call["function"].get("name") for call in calls if "id" in call] == [
        "weather",
        "time",
    ]
    for index, arguments in ((0, '{"city":"Oslo"}'), (1, '{"hour":5}')):
        pieces = [
            call["function"]["arguments"] for call in calls if call["index"] == index
        ]
        assert "".join(pieces) == arguments
    assert len(calls) > 4
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_one_call_is_a_list_of_one() -> None:
    """
    With `parallel_tool_calls: false` the grammar ends after one.
    """
    engine = engine_of(*TWO_CALLS)

    await asked(engine, tool_choice="required", parallel_tool_calls=False)

    assert schema_of(engine)["maxItems"] == 1


async def test_former_name_forces_a_call_too() -> None:
    """
    `function_call` with a name gets `function_call`.
    """
    engine = engine_of('{"hour":5}')
    functions = [tool["function"] for tool in TOOLS]
    fields: dict[str, Any] = {"functions": functions, "function_call": {"name": "time"}}

    [choice] = (await asked(engine, tools=None, **fields))["choices"]

    assert schema_of(engine) == TIME
    assert choice["message"]["function_call"] == {
        "name": "time",
        "arguments": '{"hour":5}',
    }


async def test_a_forced_call_that_was_cut_short_says_so() -> None:
    """
    Its arguments are what there is, closed.
    """
    engine = engine_of('{"city":"Os', reason=FinishReason.LENGTH)

    [choice] = (await asked(engine, tool_choice=NAMED))["choices"]

    assert choice["finish_reason"] == "length"
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"city":"Os"}'


@pytest.mark.parametrize("choice", ["required", NAMED])
async def test_forced_calls_need_a_grammar_backend(choice: object) -> None:
    """
    Without one, and beside a form of output that is not JSON, they are a 400.
    """
    without = await asked(engine_of(backend=""), 400, tool_choice=choice)
    beside = await asked(
        engine_of(), 400, tool_choice=choice, structured_outputs={"regex": "a+"}
    )

    assert without["error"]["param"] == beside["error"]["param"] == "tool_choice"
    assert "hookline-xgrammar" in without["error"]["message"]


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
async def test_forced_calls_take_the_place_of_other_json(kind: str) -> None:
    """
    As at OpenAI, a response format beside them concerns text, which does not come.
    """
    engine = engine_of('{"city":"Oslo"}')
    schema = {"name": "other", "schema": {"type": "object"}}
    asks = {"type": kind, **({"json_schema": schema} if kind == "json_schema" else {})}

    [choice] = (await asked(engine, tool_choice=NAMED, response_format=asks))["choices"]

    [call] = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"city":"Oslo"}'
    [stream] = engine.streams
    used = stream.params.structured_outputs
    assert used is not None
    assert used.json is not None
    assert "city" in str(used.json)


def tools_of(schema: dict[str, Any], *, strict: bool) -> list[Any]:
    function = {"name": "f", "parameters": schema, "strict": strict}
    return [*TOOLS, {"type": "function", "function": function}]


async def test_schema_that_is_too_large_for_a_grammar_costs_only_its_function() -> None:
    """
    Which may be called with any object; what only the model reads does not count.
    """
    large = {"type": "object", "properties": {"a": {"const": "d" * 200_000}}}
    noted = {**TIME, "description": "d" * 200_000}
    engine, noting = engine_of(*TWO_CALLS), engine_of(*TWO_CALLS)

    tools = tools_of(large, strict=False)
    await asked(engine, tools=tools, tool_choice="required")
    await asked(noting, tools=tools_of(noted, strict=True), tool_choice="required")

    schemas = schema_of(engine)["$defs"]
    assert schemas["tool2"] == {"type": "object"}
    assert schemas["tool1"] == TIME
    assert schema_of(noting)["$defs"]["tool2"] == TIME


async def test_strict_schema_that_is_too_large_for_a_grammar_names_the_tools() -> None:
    """
    The limits of grammars are lower than those of tools that are only shown.
    """
    large = {"type": "object", "properties": {"a": {"const": "d" * 200_000}}}
    tools = tools_of(large, strict=True)

    error = (await asked(engine_of(), 400, tools=tools, tool_choice="required"))[
        "error"
    ]

    assert error["param"] == "tools"
    assert error["code"] == "limit_exceeded"
    assert error["message"].startswith("tools: ")


@pytest.mark.exhaustive
def test_a_real_model_makes_the_calls_that_it_must() -> None:
    """
    The demo model, which knows no tools, writes calls that match the schemas. A schema
    that no grammar can be made of is a 400 that names the tools if it must be followed;
    else calls of other functions match theirs. No stop string cuts a call.
    """
    pytest.importorskip("xgrammar")
    body = {"model": "demo", "messages": HELLO, "tools": TOOLS, "max_tokens": 400}
    checks = {"weather": "city", "time": "hour"}
    called = set()
    with serving("--port=0", "--model=demo") as server:
        for schema in BAD_SCHEMAS:
            asks = {**body, "tool_choice": "required"}
            asks["tools"] = tools_of(schema, strict=True)
            status, answer = server.post("/v1/chat/completions", asks)
            assert status == 400
            assert answer["error"]["param"] == "tools"
            asks["tools"] = tools_of(schema, strict=False)
            status, answer = server.post("/v1/chat/completions", asks)
            assert status == 200, answer
        cut = {**body, "tool_choice": "required", "stop": ["city", "hour"]}
        status, answer = server.post("/v1/chat/completions", cut)
        word = answer["choices"][0]["finish_reason"]
        assert (status, word) in ((200, "tool_calls"), (200, "length"))
        for seed in range(12):
            for choice in ("required", NAMED):
                status, answer = server.post(
                    "/v1/chat/completions",
                    {**body, "seed": seed, "tool_choice": choice},
                )
                assert status == 200, answer
                [reply] = answer["choices"]
                if reply["finish_reason"] == "length":
                    continue
                for call in reply["message"]["tool_calls"]:
                    name = call["function"]["name"]
                    assert checks[name] in json.loads(call["function"]["arguments"])
                    called.add(name)

    assert called == set(checks)
