"""Tokens of answers without usage, and times between the tokens of several choices."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from hookline.clock import VirtualClock
from hookline.tokenizer import Tokenizer
from hookline_demo_model import folder
from hookline_faults.scripted_gateway import (
    CHAT,
    DONE,
    FINISH,
    data,
    gateway,
    numbers_of_gateway,
    stream,
    usage,
)
from hookline_faults.scripted_instances import FakeInstance

CHAT_BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}
TEXT_BODY = {"model": "m", "prompt": "Once upon a time"}
TEXT = "The cat sat on the mat."

ANSWERS: Mapping[str, tuple[str, object, list[bytes]]] = {
    "stream": (CHAT, CHAT_BODY, stream(TEXT[:9], TEXT[9:])),
    "chat": (CHAT, CHAT_BODY, [b'{"choices":[{"message":{"content":"%b"}}]}']),
    "text": ("/v1/completions", TEXT_BODY, [b'{"choices":[{"text":"%b"}]}']),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_tokenizer_counts_what_an_answer_does_not_tell(name: str) -> None:
    """The prompt as the model gets it, and the text as one piece."""
    path, body, pieces = ANSWERS[name]
    tokenizer, instance = Tokenizer.load(folder()), FakeInstance()
    instance.pieces = [each.replace(b"%b", TEXT.encode()) for each in pieces]
    async with gateway(instance, tokenizer=folder()) as client:
        await (await client.post(path, json=body)).read()
        numbers = await numbers_of_gateway(client)

    prompt = (
        tokenizer.encode("Once upon a time")
        if name == "text"
        else tokenizer.render_chat([{"role": "user", "content": "Hello there"}])
    )
    output = tokenizer.encode(TEXT, add_special_tokens=False)
    assert numbers.of("prompt_tokens_total") == len(prompt)
    assert numbers.of("generation_tokens_total") == len(output)
    assert numbers.of("request_generation_tokens_count") == 1


@pytest.mark.parametrize(
    ("body", "pieces", "expected"),
    [
        (CHAT_BODY, stream(TEXT, used=usage(3, 2)), (3, 2)),
        ({"model": "m", "prompt": [1, 2]}, stream(TEXT), (0, 0)),
        ({"model": "m", "messages": []}, stream(TEXT), (0, 0)),
    ],
)
async def test_usage_counts_before_the_tokenizer(
    body: object, pieces: Sequence[bytes], expected: tuple[int, int]
) -> None:
    """What it cannot count whole is absent."""
    instance = FakeInstance()
    instance.pieces = pieces
    async with gateway(instance, tokenizer=folder()) as client:
        await (await client.post(CHAT, json=body)).read()
        numbers = await numbers_of_gateway(client)

    found = [numbers.of(f"{each}_tokens_total") for each in ("prompt", "generation")]
    assert tuple(found) == expected
    assert numbers.of("requests_finished_total", reason="stop") == 1


def of_choice(index: int) -> bytes:
    """Returns an event with a token of one choice."""
    return data({"choices": [{"index": index, "delta": {"content": "x"}}]})


async def test_each_choice_has_its_own_intervals() -> None:
    """From one of its tokens to its next, whatever others come in between."""
    clock, instance = VirtualClock(1), FakeInstance()
    events = [of_choice(each) for each in (0, 1, 0, 1)]
    used = data({"choices": [], "usage": usage(1, 4)})
    instance.pieces = [*events, FINISH, used, DONE]
    instance.tickets = asyncio.Semaphore(0)
    async with gateway(instance, clock=clock) as client:
        instance.tickets.release()
        body = {"model": "m", "messages": [], "stream": True, "n": 2}
        response = await client.post(CHAT, json=body)
        await response.content.readuntil(b"\n\n")
        for seconds in (0.5, 1.0, 2.0, 0.0, 0.0, 0.0):
            clock.sleep(seconds)
            instance.tickets.release()
            await response.content.readuntil(b"\n\n")
        await response.read()
        numbers = await numbers_of_gateway(client)

    # 0.5 + 1 s of the first choice, 1 + 2 s of the second one.
    assert numbers.of("inter_token_seconds_sum") == 4.5
    assert numbers.of("inter_token_seconds_count") == 2
    assert numbers.of("generation_tokens_total") == 4
