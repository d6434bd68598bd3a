"""The events of a streamed response, and how a stream ends that cannot go on."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest
from aiohttp import ClientTimeout

from hookline.exceptions import GrammarError
from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
TOOLS = [{"type": "function", "name": "f"}]
BODY: dict[str, Any] = {"input": "Hi", "stream": True}
SCRIPT = (
    *("<think>\nHm.\n", "</think>\n\n", "I ", "look."),
    *('<tool_call>{"name": "f", "argu', 'ments": {"a": "b"}}</tool_call>'),
    '\n<tool_call>{"name": "f", "arguments": {}}</tool_call>',
)


def engine_of(*script: str, reason: FinishReason = FinishReason.STOP) -> FakeEngine:
    engine = FakeEngine(script, finish_reason=reason)
    engine.facts = dataclasses.replace(
        engine.facts, model=dataclasses.replace(engine.facts.model, max_model_len=1024)
    )
    return engine


def events_in(text: str) -> list[Any]:
    """The events; each has the name that is the type of its data, and its number."""
    events = []
    for number, event in enumerate(text.removesuffix("\n\n").split("\n\n")):
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
        assert events[-1]["sequence_number"] == number
    return events


async def streamed(engine: FakeEngine, **fields: Any) -> list[Any]:
    async with client_of(engine, PARSERS) as client:
        response = await client.post("/v1/responses", json={**BODY, **fields})
        text = await response.text()
    assert response.status == 200, text
    return events_in(text)


async def test_events_of_a_stream() -> None:
    """
    Each item begins, grows and ends before the next one, and the last event has all.
    """
    created, in_progress, *events, completed = await streamed(
        engine_of(*SCRIPT), tools=TOOLS
    )

    assert created["type"] == "response.created"
    assert in_progress["type"] == "response.in_progress"
    assert created["response"] == in_progress["response"]
    begun = created["response"]
    assert (begun["status"], begun["output"]) == ("in_progress", [])
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("output_item.added", "content_part.added", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
    ]
    added = [each["item"] for each in events if each["type"].endswith("item.added")]
    assert {each["status"] for each in added} == {"in_progress"}
    done = [each["item"] for each in events if each["type"].endswith("item.done")]
    assert [each["id"] for each in done] == [each["id"] for each in added]
    ended = completed["response"]
    assert completed["type"] == "response.completed"
    assert ended["output"] == done
    assert ended["usage"]["output_tokens"] == sum(map(len, SCRIPT))
    assert (ended["id"], ended["status"]) == (begun["id"], "completed")


async def test_deltas_make_up_the_items() -> None:
    """
    They name their item, and joined they are what its last events have.
    """
    events = await streamed(engine_of(*SCRIPT), tools=TOOLS)

    items = events[-1]["response"]["output"]
    deltas: dict[str, str] = {}
    for each in events:
        if each["type"].endswith(".delta"):
            assert items[each["output_index"]]["id"] == each["item_id"]
            key = each["item_id"]
            deltas[key] = deltas.get(key, "") + each["delta"]
    reasoning, message, first, second = items
    assert deltas[reasoning["id"]] == "Hm." == reasoning["content"][0]["text"]
    assert deltas[message["id"]] == "I look." == message["content"][0]["text"]
    assert deltas[first["id"]] == '{"a": "b"}' == first["arguments"]
    assert deltas[second["id"]] == "{}" == second["arguments"]
    arguments = [
        (each["name"], each["arguments"])
        for each in events
        if each["type"] == "response.function_call_arguments.done"
    ]
    assert arguments == [("f", '{"a": "b"}'), ("f", "{}")]


async def test_a_stream_that_is_cut_short() -> None:
    """
    Its last event says so, as do its last item and the whole response.
    """
    *_, last_item, end = await streamed(engine_of("a", reason=FinishReason.LENGTH))

    assert last_item["item"]["status"] == "incomplete"
    assert end["type"] == "response.incomplete"
    assert end["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_log_probabilities_of_a_stream() -> None:
    """
    Each piece of text has those of its tokens, and the end all of them.
    """
    events = await streamed(
        engine_of("ab", "c", ""), include=["message.output_text.logprobs"]
    )

    def tokens(each: Any) -> str:
        return "".join(entry["token"] for entry in each["logprobs"])

    texts = [each for each in events if "output_text" in each["type"]]
    assert [tokens(each) for each in texts] == ["ab", "c", "abc"]
    [message] = events[-1]["response"]["output"]
    assert tokens(message["content"][0]) == "abc"


async def test_an_engine_that_dies_ends_a_stream() -> None:
    """
    The last event is a failed response with what was written; nothing is kept.
    """
    engine = engine_of("a", "b")
    engine.gate.clear()
    engine.free_steps = 1
    async with client_of(engine) as client:
        response = await client.post("/v1/responses", json=BODY)
        engine.failure = "gone"
        engine.gate.set()
        events = events_in(await response.text())
        response_id = events[0]["response"]["id"]
        later = await client.get(f"/v1/responses/{response_id}")

    last = events[-1]
    assert last["type"] == "response.failed"
    failed = last["response"]
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == "server_error"
    assert "gone" in failed["error"]["message"]
    [message] = failed["output"]
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", "a")
    assert later.status == 404


async def test_a_deadline_ends_a_stream() -> None:
    """
    What is late ends with a failed response, too.
    """
    engine = engine_of("a", "b")
    engine.gate.clear()
    engine.free_steps = 1
    headers = {"X-Request-Timeout": "0.05"}
    async with client_of(engine) as client:
        response = await client.post("/v1/responses", json=BODY, headers=headers)
        *_, last = events_in(await response.text())

    assert last["type"] == "response.failed"
    assert "not finished within 0.05 s" in last["response"]["error"]["message"]
    assert engine.streams[0].cause == "timeout"


async def test_a_grammar_that_fails_later_names_the_field() -> None:
    """
    The error of a grammar is that of the prompt, by this API's codes.
    """
    engine = engine_of("a", "b")
    engine.facts = dataclasses.replace(engine.facts, structured_outputs="fake")
    engine.gate.clear()
    engine.free_steps = 1
    fields = {"text": {"format": {"type": "json_object"}}}
    async with client_of(engine) as client:
        response = await client.post("/v1/responses", json={**BODY, **fields})
        engine.refusal = GrammarError("it ends")
        engine.gate.set()
        *_, last = events_in(await response.text())

    error = last["response"]["error"]
    assert (error["code"], error["param"]) == ("invalid_prompt", "text.format")


async def test_an_error_before_the_first_event_has_its_own_status() -> None:
    """
    It is an error of OpenAI's form, and no event.
    """
    engine = engine_of("a")
    engine.max_open = 0
    async with client_of(engine) as client:
        response = await client.post("/v1/responses", json=BODY)
        answer = await response.json()

    assert response.status == 429
    assert answer["error"]["code"] == "overloaded"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_that_leaves_aborts(is_streamed: bool) -> None:
    """
    Its request ends in the engine, and nothing is kept.
    """
    engine = engine_of("a", "b")
    engine.gate.clear()
    async with client_of(engine) as client:
        body = {**BODY, "stream": is_streamed}
        with pytest.raises(asyncio.TimeoutError):
            await client.post(
                "/v1/responses", json=body, timeout=ClientTimeout(total=0.1)
            )
        [stream] = engine.streams
        await asyncio.wait_for(stream.aborted.wait(), 5)

    assert stream.cause == "client_disconnect"
