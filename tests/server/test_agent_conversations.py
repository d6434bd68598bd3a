"""Requests that agents have sent to `/v1/messages` and chats get what they expect.

`agents/chat/*.json` and `agents/messages/*.json` have requests as the agents sent them,
shortened; each file says where they come from. The `.txt` files beside them have what
became of each: what the chat template got, what was left out, and the answer, which is
the same whole and streamed. Run this file with `HOOKLINE_UPDATE_GOLDEN=1` to accept new
ones.
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookline.request import FinishReason
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.golden import check_golden
from hookline_testing.scripted_server import FakeEngine, client_of

FOLDER = Path(__file__).with_name("agents")
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages?beta=true"}
SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
IDS = re.compile(r"\b(toolu|call)_[0-9a-f]{24,}")
PIECE = 7
"""Characters of the model's text in each step."""


def recordings() -> Iterator[tuple[str, Path]]:
    for api in PATHS:
        yield from ((api, path) for path in sorted((FOLDER / api).glob("*.json")))


async def test_conversations_of_agents_are_golden() -> None:
    """
    Each request is served, and the model reads and the client gets what they did.
    """
    faults = []
    for api, path in recordings():
        for number, case in enumerate(json.loads(path.read_text("utf-8"))["cases"]):
            golden = path.with_name(f"{path.stem}_{number}.txt")
            try:
                check_golden(golden, await transcript(api, case))
            except AssertionError as error:
                faults.append(f"{golden.name}: {error}")

    assert not faults, "\n\n".join(faults)


def test_every_conversation_says_where_it_comes_from() -> None:
    """
    No transcript is left of another, and there are at least four agents.
    """
    found = {path for _, path in recordings()}
    expected = set()
    for path in found:
        recorded = json.loads(path.read_text("utf-8"))
        assert recorded["source"], path
        numbers = range(len(recorded["cases"]))
        expected |= {path.with_name(f"{path.stem}_{n}.txt") for n in numbers}

    assert {each for api in PATHS for each in (FOLDER / api).glob("*.txt")} == expected
    assert len({path.stem for path in found}) >= 4


async def transcript(api: str, case: dict[str, Any]) -> str:
    """What became of a request, as text, with ids masked."""
    engine, ignored, whole = await answered(api, case, is_streamed=False)
    _, _, streamed = await answered(api, case, is_streamed=True)
    assert streamed == whole
    tools: Any = engine.variables[0].pop("tools", [])
    parts = {
        "messages": engine.chats[0],
        "functions": [each["function"]["name"] for each in tools],
        "variables": engine.variables[0],
        "max_tokens": engine.streams[0].params.max_tokens,
        "left out": ignored,
        "answer": whole,
    }
    texts = [
        f"== {name} ==\n{json.dumps(value, indent=1, ensure_ascii=False)}\n"
        for name, value in parts.items()
    ]
    return IDS.sub(r"\1_…", "\n".join(texts))


async def answered(
    api: str, case: dict[str, Any], *, is_streamed: bool
) -> tuple[FakeEngine, list[str], object]:
    """Returns the engine, what was left out, and the answer in the same form always."""
    reply = case["reply"]
    pieces = [reply[at : at + PIECE] for at in range(0, len(reply), PIECE)]
    engine = FakeEngine(pieces, finish_reason=FinishReason.STOP)
    model = dataclasses.replace(engine.facts.model, max_model_len=16_384)
    engine.facts = dataclasses.replace(
        engine.facts, model=model, structured_outputs="fake"
    )
    body = {**case["request"], "model": "fake", "stream": is_streamed}
    if not is_streamed:
        body.pop("stream_options", None)
    async with client_of(engine, SETTINGS) as client:
        response = await client.post(
            PATHS[api], json=body, headers=case.get("headers", {})
        )
        text = await response.text()
    assert response.status == 200, text
    header = response.headers.get("X-Hookline-Ignored", "")
    read = {"chat": chat_answer, "messages": message_answer}[api]
    events = stream_events(text) if is_streamed else None
    answer = read(events, None if is_streamed else json.loads(text))
    masked = json.loads(IDS.sub(r"\1_…", json.dumps(answer)))
    return engine, header.split(", ") if header else [], masked


def stream_events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def message_answer(events: list[Any] | None, whole: Any) -> object:
    """The blocks and the stop reason, put together of events as clients do."""
    if events is None:
        return [whole["stop_reason"], whole["content"]]
    blocks: list[dict[str, Any]] = []
    reason = None
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                delta = dict(event["delta"])
                [(_, kind), (name, more)] = delta.items()
                name = "json" if kind == "input_json_delta" else name
                blocks[event["index"]][name] += more
            case "message_delta":
                reason = event["delta"]["stop_reason"]
            case _:
                pass
    for block in blocks:
        if (text := block.pop("json")) or block["type"] == "tool_use":
            block["input"] = json.loads(text)
    return [reason, blocks]


def chat_answer(events: list[Any] | None, whole: Any) -> object:
    """The message and the finish reason, put together of chunks as clients do."""
    if events is None:
        [choice] = whole["choices"]
        message = choice["message"]
        calls = message.get("tool_calls", [])
        names = ("content", "reasoning_content")
        texts = [message.get(name) or "" for name in names]
        return [choice["finish_reason"], *texts, calls]
    texts, reason = ["", ""], None
    joined: list[dict[str, Any]] = []
    for event in events:
        for choice in event["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"] or reason
            texts[0] += delta.get("content") or ""
            texts[1] += delta.get("reasoning_content") or ""
            for part in delta.get("tool_calls", []):
                if part["index"] == len(joined):
                    joined.append({**part, "function": {"name": "", "arguments": ""}})
                    del joined[-1]["index"]
                function = joined[part["index"]]["function"]
                for name, more in part["function"].items():
                    function[name] += more
    return [reason, *texts, joined]
