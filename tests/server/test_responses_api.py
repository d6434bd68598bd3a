"""`/v1/responses` on a scripted engine: what requests become, how replies are told."""

import dataclasses
import json
import re
from typing import Any

import pytest

from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = [
    {"type": "function", "name": "f", "description": "Tells.", "parameters": SCHEMA},
    {"type": "function", "name": "g", "strict": True},
]
CALL = '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call>'


def engine_of(*script: str, reason: FinishReason = FinishReason.STOP) -> FakeEngine:
    engine = FakeEngine(script, finish_reason=reason)
    engine.facts = dataclasses.replace(
        engine.facts,
        model=dataclasses.replace(engine.facts.model, max_model_len=1024),
        structured_outputs="fake",
    )
    return engine


async def answered(engine: FakeEngine, *, status: int = 200, **fields: Any) -> Any:
    async with client_of(engine, PARSERS) as client:
        response = await client.post("/v1/responses", json={"input": "Hi", **fields})
        answer = await response.json()
    assert response.status == status, answer
    return answer


async def test_a_response() -> None:
    """
    It has all fields of OpenAI's, with the defaults that were used.
    """
    engine = engine_of("Hell", "o")
    engine.cached_tokens = 1

    answer = await answered(engine)

    assert re.fullmatch("resp_[0-9a-f]{32}", answer.pop("id"))
    [message] = answer.pop("output")
    assert re.fullmatch("msg_[0-9a-f]{32}", message.pop("id"))
    assert answer.pop("completed_at") >= answer.pop("created_at") > 0
    assert message == {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
        ],
    }
    assert answer == {
        "object": "response",
        "status": "completed",
        "model": "fake",
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": len("Hi\n>"),
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 9,
        },
        "instructions": None,
        "previous_response_id": None,
        "store": True,
        "background": False,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_logprobs": 0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "text": {"format": {"type": "text"}, "verbosity": None},
        "reasoning": {"effort": None, "summary": None},
        "truncation": "disabled",
        "metadata": {},
        "user": None,
        "safety_identifier": None,
        "prompt_cache_key": None,
        "service_tier": "default",
    }


async def test_a_response_repeats_its_request() -> None:
    """
    What the client sent comes back, also what changes nothing here.
    """
    given: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 9,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.25,
        "top_logprobs": 2,
        "truncation": "auto",
        "metadata": {"a": "b"},
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "store": False,
    }

    answer = await answered(
        engine_of('{"a": "b"}'),
        **given,
        tools=TOOLS,
        service_tier="flex",
        stream=False,
        background=False,
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "low", "generate_summary": "auto"},
    )

    assert {name: answer[name] for name in given} == given
    assert answer["reasoning"] == {"effort": "low", "summary": "auto"}
    assert answer["service_tier"] == "default"
    first, second = answer["tools"]
    assert (first["name"], first["description"]) == ("f", "Tells.")
    assert (first["parameters"], first["strict"]) == (SCHEMA, False)
    assert (second["parameters"]["type"], second["strict"]) == ("object", True)


async def test_parameters_reach_the_engine() -> None:
    """
    Those of OpenAI and of vLLM; the response's id is that of the observers' facts.
    """
    engine = engine_of("a")
    answer = await answered(
        engine,
        max_output_tokens=9,
        reasoning={"effort": "none"},
        chat_template_kwargs={"mode": "x"},
        priority=2,
        cache_salt="salt",
    )

    [stream] = engine.streams
    assert stream.params.max_tokens == 9
    facts = stream.facts
    assert (facts.operation, facts.priority) == ("chat", 2)
    assert facts.response_id == answer["id"]
    assert stream.cache_salt == "salt"
    assert engine.variables == [
        {
            "reasoning_effort": "none",
            "enable_thinking": False,
            "thinking": False,
            "mode": "x",
        }
    ]


async def test_a_conversation_reaches_the_template() -> None:
    """
    Items become what the chat API would pass on; what the assistant has written
    without anybody in between is one message.
    """
    engine = engine_of("a")
    text = {"type": "input_text", "text": "Look"}
    await answered(
        engine,
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "Rules."},
            {"role": "user", "content": [text, {**text, "text": "there"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "Hm."}],
                "encrypted_content": "secret",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "So.", "annotations": []},
                    {"type": "refusal", "refusal": "No."},
                ],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "f",
                "arguments": '{"a": [1]}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
            {"type": "function_call_output", "call_id": "call_2", "output": [text]},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "In short."}],
            },
            {"role": "assistant", "content": "Done."},
            {"type": "message", "role": "user", "content": "And?"},
        ],
        tools=TOOLS,
    )

    function = {"name": "f", "arguments": {"a": [1]}}
    assert engine.chats == [
        [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Rules."},
            {"role": "user", "content": "Look\nthere"},
            {
                "role": "assistant",
                "content": "So.\nNo.",
                "reasoning_content": "Hm.",
                "reasoning": "Hm.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": function}
                ],
            },
            {"role": "tool", "content": "rain", "tool_call_id": "call_1"},
            {"role": "tool", "content": "Look", "tool_call_id": "call_2"},
            {
                "role": "assistant",
                "content": "Done.",
                "reasoning_content": "In short.",
                "reasoning": "In short.",
            },
            {"role": "user", "content": "And?"},
        ]
    ]
    tools: Any = engine.variables[0]["tools"]
    assert [each["function"]["name"] for each in tools] == ["f", "g"]
    assert tools[0]["function"]["parameters"] == SCHEMA


async def test_items_of_a_whole_response() -> None:
    """
    Reasoning, text and calls come in their order, each an item with an id of its own.
    """
    engine = engine_of("<think>\nHm.\n</think>\n\n", "I look.", CALL, "\n", CALL)

    answer = await answered(engine, tools=TOOLS)

    reasoning, message, *calls = answer["output"]
    assert re.fullmatch("rs_[0-9a-f]{32}", reasoning.pop("id"))
    assert reasoning == {
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    assert message["content"][0]["text"] == "I look."
    assert all(re.fullmatch("fc_[0-9a-f]{32}", each.pop("id")) for each in calls)
    ids = {each.pop("call_id") for each in calls}
    assert len(ids) == 2
    call = {"type": "function_call", "name": "f", "arguments": '{"a": "b"}'}
    assert calls == [{**call, "status": "completed"}] * 2
    usage = answer["usage"]
    reasoning_tokens = usage["output_tokens_details"]["reasoning_tokens"]
    assert 0 < reasoning_tokens < usage["output_tokens"]


async def test_a_response_that_is_cut_short() -> None:
    """
    It is incomplete, and so is its last item.
    """
    engine = engine_of("Look. ", CALL[:-20], reason=FinishReason.LENGTH)

    answer = await answered(engine, tools=TOOLS)

    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["completed_at"] is None
    assert [each["status"] for each in answer["output"]] == ["completed", "incomplete"]


async def test_a_reply_without_text_is_an_empty_message() -> None:
    """
    Clients look for a message.
    """
    answer = await answered(engine_of(""))

    [message] = answer["output"]
    assert message["content"][0]["text"] == ""


async def test_one_call_at_most() -> None:
    """
    `parallel_tool_calls` leaves out all calls but the first.
    """
    engine = engine_of(CALL, "\n", CALL)

    answer = await answered(engine, tools=TOOLS, parallel_tool_calls=False)

    assert [each["type"] for each in answer["output"]] == ["function_call"]


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "f"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "f"}],
        },
    ],
)
async def test_forced_calls(choice: Any) -> None:
    """
    A grammar forces them; the model may reason before.
    """
    script = '<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'
    engine = engine_of("<think>Hm.</think>", script)

    answer = await answered(engine, tools=TOOLS, tool_choice=choice)

    reasoning, call = answer["output"]
    assert reasoning["type"] == "reasoning"
    assert (call["name"], call["arguments"]) == ("f", '{"a": "b"}')
    assert answer["status"] == "completed"
    assert answer["tool_choice"] == choice
    assert engine.streams[0].params.structured_outputs is not None


async def test_tools_are_hidden() -> None:
    """
    By `none`; `allowed_tools` hides those that it does not name.
    """
    engine = engine_of(CALL)
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "g"}]}

    answer = await answered(engine, tools=TOOLS, tool_choice="none")
    await answered(engine, tools=TOOLS, tool_choice=allowed)

    assert answer["output"][0]["content"][0]["text"] == CALL
    none, one = engine.variables
    assert none == {}
    tools: Any = one["tools"]
    assert [each["function"]["name"] for each in tools] == ["g"]


async def test_text_has_the_format_that_the_client_asks_for() -> None:
    """
    A schema or any object; text is free.
    """
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    engine = engine_of('{"a": 1}')

    answers = [
        await answered(engine, text={"format": each})
        for each in (form, {"type": "json_object"}, {"type": "text"})
    ]

    grammars = [stream.params.structured_outputs for stream in engine.streams]
    assert grammars[0] is not None
    assert json.loads(str(grammars[0].json)) == schema
    assert grammars[1] is not None
    assert grammars[1].json_object
    assert grammars[2] is None
    assert answers[0]["text"]["format"] == form


async def test_grammars_of_vllm() -> None:
    """
    `structured_outputs` asks for other forms.
    """
    engine = engine_of("yes")

    await answered(engine, structured_outputs={"choice": ["yes", "no"]})

    grammar = engine.streams[0].params.structured_outputs
    assert grammar is not None
    assert grammar.choice == ("yes", "no")


async def test_log_probabilities() -> None:
    """
    They are part of the message if the client asks to include them.
    """
    included: dict[str, Any] = {
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 1,
    }
    engine = engine_of("ab")

    [message] = (await answered(engine, **included))["output"]
    [without] = (await answered(engine, top_logprobs=1))["output"]

    first, second = message["content"][0]["logprobs"]
    assert (first["token"], second["token"]) == ("a", "b")
    assert first["top_logprobs"] == [{"token": "a", "logprob": -0.25, "bytes": [97]}]
    assert without["content"][0]["logprobs"] == []


async def test_truncation_keeps_the_end() -> None:
    """
    `auto` keeps as many of the last tokens as fit with the output.
    """
    engine = engine_of("a")
    text = "x" * 2000

    await answered(engine, input=text, truncation="auto", max_output_tokens=24)

    assert len(engine.streams[0].prompt) == 1000
    assert engine.streams[0].prompt[-1] == ord(">")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"instructions": "Be brief.", "tools": TOOLS, "tool_choice": "none"},
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"role": "user", "content": "?"},
            ]
        },
        {"input": "x" * 2000, "truncation": "auto", "max_output_tokens": 24},
    ],
)
async def test_input_tokens_are_those_of_the_response(fields: dict[str, Any]) -> None:
    """
    Also where the response continues a stored one, and nothing is generated or stored.
    """
    engine = engine_of("Hello")
    async with client_of(engine, PARSERS) as client:

        async def ask(path: str = "", **more: Any) -> Any:
            body = {"input": "Hi", **fields, **more}
            response = await client.post(f"/v1/responses{path}", json=body)
            assert response.status == 200, await response.text()
            return await response.json()

        first = await ask()
        counted = await ask("/input_tokens")
        second = await ask(previous_response_id=first["id"])
        num_streams = len(engine.streams)
        continued = await ask("/input_tokens", previous_response_id=first["id"])

    assert counted == {
        "object": "response.input_tokens",
        "input_tokens": first["usage"]["input_tokens"],
    }
    assert continued["input_tokens"] == second["usage"]["input_tokens"]
    assert len(engine.streams) == num_streams


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"input": "x" * 2000}, 200, None),
        ({"input": None}, 400, "input"),
        ({"tools": [{"type": "function"}]}, 400, "tools[0].name"),
        ({"previous_response_id": "resp_x"}, 400, "previous_response_id"),
        ({"model": "other"}, 404, "model"),
    ],
)
async def test_a_count_is_refused_like_a_response(
    fields: dict[str, Any], status: int, param: str | None
) -> None:
    """
    Only the context's length does not matter: a client counts to stay below it.
    """
    async with client_of(engine_of("a"), PARSERS) as client:
        body = {"input": "Hi", **fields}
        response = await client.post("/v1/responses/input_tokens", json=body)
        answer = await response.json()

    assert response.status == status, answer
    assert answer.get("error", {}).get("param") == param


async def test_each_response_has_an_id_of_its_own() -> None:
    """
    Also if the client names its requests alike: responses are kept by their ids.
    """
    async with client_of(engine_of("a")) as client:
        ids = set()
        for _ in range(2):
            headers = {"X-Request-Id": "same"}
            response = await client.post(
                "/v1/responses", json={"input": "Hi"}, headers=headers
            )
            assert response.headers["X-Request-Id"] == "same"
            ids.add((await response.json())["id"])

    assert len(ids) == 2
