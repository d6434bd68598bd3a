"""Streams, byte for byte."""

import asyncio
import json
import re
from typing import Any

from hookline.request import FinishReason
from hookline_testing.scripted_server import FakeEngine, client_of


async def stream(engine: FakeEngine, path: str, **fields: object) -> bytes:
    body = {"model": "fake", "stream": True, **fields}
    async with client_of(engine) as client:
        response = await client.post(
            path, json=body, headers={"X-Request-Id": "r1"}, raise_for_status=True
        )
        assert response.content_type == "text/event-stream"
        return await response.read()


async def completion(engine: FakeEngine, **fields: object) -> bytes:
    return await stream(engine, "/v1/completions", **{"prompt": "ab", **fields})


async def chat(engine: FakeEngine, **fields: object) -> bytes:
    messages = [{"role": "user", "content": "Hi"}]
    return await stream(engine, "/v1/chat/completions", messages=messages, **fields)


def parsed(raw: bytes) -> list[Any]:
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")
    *events, done, rest = raw.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert all(event.startswith(b"data: {") for event in events)
    assert not any(b"\n" in event for event in events)
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def without_time(raw: bytes) -> bytes:
    return re.sub(rb'"created":\d+', b'"created":1', raw)


async def test_completion_stream_is_exactly_this() -> None:
    """
    A streamed completion is one event a step and the terminator, nothing else.
    """
    raw = await completion(FakeEngine(["a\nb", "c"]))

    head = b'"id":"cmpl-r1","object":"text_completion","created":1,"model":"fake"'
    assert without_time(raw) == (
        b"data: {" + head + b',"choices":[{"index":0,"text":"a\\nb","logprobs":null,'
        b'"finish_reason":null,"stop_reason":null}]}\n\n'
        b"data: {" + head + b',"choices":[{"index":0,"text":"c","logprobs":null,'
        b'"finish_reason":"length","stop_reason":null}]}\n\n'
        b"data: [DONE]\n\n"
    )


async def test_chat_stream_is_exactly_this() -> None:
    """
    A streamed answer names its role first, then brings text, then its end.
    """
    raw = await chat(FakeEngine(["é"], finish_reason=FinishReason.STOP))

    head = (
        b'"id":"chatcmpl-r1","object":"chat.completion.chunk","created":1,'
        b'"model":"fake","choices":[{"index":0,'
    )
    assert without_time(raw) == (
        b"data: {" + head + b'"delta":{"role":"assistant","content":""},'
        b'"logprobs":null,"finish_reason":null}]}\n\n'
        b"data: {" + head + '"delta":{"content":"é"},'.encode() + b'"logprobs":null,'
        b'"finish_reason":null}]}\n\n'
        b"data: {" + head + b'"delta":{},"logprobs":null,'
        b'"finish_reason":"stop","stop_reason":null}]}\n\n'
        b"data: [DONE]\n\n"
    )


async def test_usage_comes_last_without_choices() -> None:
    """
    `include_usage` adds one event with usage and no choices; others have null.
    """
    raw = await chat(
        FakeEngine(["x", "y"]), n=2, stream_options={"include_usage": True}
    )

    *others, last = parsed(raw)
    assert {event["usage"] for event in others} == {None}
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 4
    assert last["usage"]["completion_tokens"] == 4


async def test_usage_may_come_with_each_event() -> None:
    """
    With `continuous_usage_stats` each event has the token counts so far.
    """
    options = {"include_usage": True, "continuous_usage_stats": True}

    raw = await completion(FakeEngine(["xy", "z"]), stream_options=options)

    totals = [event["usage"]["completion_tokens"] for event in parsed(raw)]
    assert totals == [2, 3, 3]


async def test_choices_of_several_prompts_interleave() -> None:
    """
    Each choice of a streamed request gets its complete text under its index.
    """
    raw = await completion(FakeEngine(["x", "y"]), prompt=["a", "b"], n=2, echo=True)

    texts: dict[int, str] = {}
    for event in parsed(raw):
        for choice in event["choices"]:
            texts.setdefault(choice["index"], "")
            texts[choice["index"]] += choice["text"]
    assert texts == {0: "axy", 1: "axy", 2: "bxy", 3: "bxy"}


async def test_streamed_logprobs_go_on_counting_offsets() -> None:
    """
    Offsets of streamed log-probabilities count from the start of the choice's text.
    """
    raw = await completion(FakeEngine(["xy", "z"]), logprobs=0)

    logprobs = [event["choices"][0]["logprobs"] for event in parsed(raw)]
    assert [each["text_offset"] for each in logprobs] == [[0, 1], [2]]
    assert [each["tokens"] for each in logprobs] == [["x", "y"], ["z"]]


async def test_engine_death_ends_a_stream_with_an_error_event() -> None:
    """
    A failure after the first event is an error event that ends the stream.
    """
    engine = FakeEngine(["x", "y"])
    engine.gate.clear()
    engine.free_steps = 1
    body = {"model": "fake", "prompt": "ab", "stream": True}

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json=body)
        first = await response.content.readuntil(b"\n\n")
        engine.fail("out of memory")
        rest = await response.read()

    assert response.status == 200
    assert b'"text":"x"' in first
    (error,) = parsed(rest)
    assert error["error"]["code"] == "engine_unavailable"
    assert "out of memory" in error["error"]["message"]


async def test_engine_death_before_the_first_event_has_a_status() -> None:
    """
    What fails before anything was sent is an ordinary 503.
    """
    engine = FakeEngine()
    engine.gate.clear()
    body = {"model": "fake", "prompt": "ab", "stream": True}

    async with client_of(engine) as client:
        asking = asyncio.create_task(
            client.session.post(client.make_url("/v1/completions"), json=body)
        )
        await engine.submitted.wait()
        engine.fail("out of memory")
        response = await asking

    assert response.status == 503
