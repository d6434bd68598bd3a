"""Answers of many tokens with log-probabilities."""

import asyncio
import io
import json
from typing import Any

import pytest

from hookline_server.answers.slices import SLICE_TOKENS
from hookline_testing.scripted_server import FakeEngine, client_of

TEXT = "abcdefghij" * (SLICE_TOKENS // 4)
BODIES: dict[str, dict[str, object]] = {
    "/v1/completions": {"model": "fake", "prompt": "ab", "logprobs": 2, "echo": True},
    "/v1/chat/completions": {
        "model": "fake",
        "messages": [{"role": "user", "content": "ab"}],
        "logprobs": True,
        "top_logprobs": 2,
    },
}
RESPONSES: dict[str, object] = {
    "model": "fake",
    "input": "ab",
    "include": ["message.output_text.logprobs"],
    "top_logprobs": 2,
}


async def answer(path: str, engine: FakeEngine, **fields: object) -> str:
    async with client_of(engine) as client:
        body = json.dumps({**BODIES.get(path, RESPONSES), **fields}).encode()
        response = await client.post(path, data=io.BytesIO(body))
        assert response.status == 200
        return await response.text()


def joined(parts: list[Any]) -> dict[str, list[Any]]:
    """The lists of log-probabilities of all parts."""
    lists: dict[str, list[Any]] = {}
    for part in parts:
        for name, values in (part or {}).items():
            if isinstance(values, list):
                lists.setdefault(name, []).extend(values)
    return lists


@pytest.mark.parametrize("path", BODIES)
async def test_a_whole_answer_has_the_log_probabilities_of_a_stream(path: str) -> None:
    """Although it is made in slices, and the stream in steps."""
    whole = json.loads(await answer(path, FakeEngine([TEXT]), n=2))
    stream = await answer(path, FakeEngine([TEXT]), n=2, stream=True)

    events = [
        json.loads(line.removeprefix("data: "))
        for line in stream.split("\n\n")
        if line.startswith("data: {")
    ]
    for index, choice in enumerate(whole["choices"]):
        parts = [
            each.get("logprobs")
            for event in events
            for each in event["choices"]
            if each["index"] == index
        ]
        lists = joined([choice["logprobs"]])
        assert lists == joined(parts)
        assert max(map(len, lists.values())) >= len(TEXT) > 2 * SLICE_TOKENS


async def test_a_whole_response_has_the_log_probabilities_of_a_stream() -> None:
    """Likewise, for the items of Responses, which the stream's last event repeats."""
    path = "/v1/responses"
    whole = json.loads(await answer(path, FakeEngine([TEXT])))
    *_, data = (await answer(path, FakeEngine([TEXT]), stream=True)).split("data: ")

    messages = [each["output"][0] for each in (whole, json.loads(data)["response"])]
    first, second = (each["content"][0]["logprobs"] for each in messages)
    assert first == second
    assert len(first) == len(TEXT)


@pytest.mark.parametrize("path", [*BODIES, "/v1/responses"])
async def test_others_get_their_turns_while_a_long_answer_is_made(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop runs between two slices of an answer."""
    turns: list[float] = []
    sleep = asyncio.sleep

    async def counted(delay: float) -> None:
        turns.append(delay)
        await sleep(delay)

    monkeypatch.setattr("hookline_server.answers.slices.asyncio.sleep", counted)

    copies = 3 if path in BODIES else 1
    await answer(path, FakeEngine([TEXT]), n=copies)

    assert turns.count(0) >= copies * len(TEXT) // SLICE_TOKENS - 1
