"""`/v1/chat/completions` above a scripted engine."""

from typing import Any

import pytest

from hookline.request import FinishReason
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]


async def chat(engine: FakeEngine, **fields: object) -> Any:
    body = {"model": "fake", "messages": HELLO, **fields}
    async with client_of(engine) as client:
        response = await client.post("/v1/chat/completions", json=body)
        assert response.status == 200, await response.text()
        return await response.json()


async def test_answer_has_every_field_of_the_api() -> None:
    """
    A whole answer carries the fields that OpenAI's schema requires.
    """
    answer = await chat(FakeEngine(finish_reason=FinishReason.STOP))

    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    assert answer["usage"]["total_tokens"] == 4 + 5


async def test_messages_reach_the_template() -> None:
    """
    Text parts are joined, developer becomes system, assistant content may be empty.
    """
    engine = FakeEngine()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    await chat(
        engine,
        messages=[
            {"role": "developer", "content": "d"},
            {"role": "assistant", "content": None},
            {"role": "user", "content": parts, "name": "Ann"},
        ],
    )

    assert engine.chats == [
        [
            {"role": "system", "content": "d"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "a\nb", "name": "Ann"},
        ]
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"max_tokens": 3}, 3),
        ({"max_completion_tokens": 4}, 4),
        ({"max_tokens": 3, "max_completion_tokens": 4}, 4),
    ],
)
async def test_output_is_bounded_by_either_name(
    fields: dict[str, int], expected: int | None
) -> None:
    """
    `max_completion_tokens` wins over `max_tokens`; without both the context bounds.
    """
    engine = FakeEngine()

    await chat(engine, **fields)

    assert engine.streams[0].params.max_tokens == expected


async def test_logprobs_carry_bytes() -> None:
    """
    Each token has its bytes and the likeliest tokens at its position.
    """
    answer = await chat(FakeEngine(["é"]), logprobs=True, top_logprobs=1)

    item = {"token": "é", "logprob": -0.25, "bytes": [195, 169]}
    assert answer["choices"][0]["logprobs"] == {
        "content": [{**item, "top_logprobs": [item]}],
        "refusal": None,
    }


async def test_harmless_values_of_unsupported_fields_are_taken() -> None:
    """
    Fields that ask for nothing beyond text are no reason to refuse.
    """
    answer = await chat(
        FakeEngine(),
        tools=[{"type": "function", "function": {"name": "f"}}],
        tool_choice="none",
        response_format={"type": "text"},
        modalities=["text"],
        audio=None,
        functions=[],
    )

    assert answer["choices"][0]["message"]["content"] == "Hello"
