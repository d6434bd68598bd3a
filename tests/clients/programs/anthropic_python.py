"""The package `anthropic`, for Python."""

import asyncio
from threading import Timer
from typing import Literal

import anthropic
from harness import (
    FORECAST,
    KEY,
    MODEL,
    NARROW_KEY,
    QUESTION,
    ROOT,
    SAID,
    TOO_LONG,
    WEATHER_PARAMETERS,
    feature,
    get_weather,
    raises,
    run_features,
    wait_until_idle,
)
from pydantic import BaseModel

CLIENT = anthropic.Anthropic(base_url=ROOT, api_key=KEY, max_retries=0)
MESSAGES = CLIENT.messages
TOOL = {
    "name": "get_weather",
    "description": get_weather.__doc__,
    "input_schema": WEATHER_PARAMETERS,
}


def asking(content: str, max_tokens: int = 1000) -> dict[str, object]:
    turn = {"role": "user", "content": content}
    return {"model": MODEL, "max_tokens": max_tokens, "messages": [turn]}


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    is_windy: bool


@feature
def models() -> None:
    assert [model.id for model in CLIENT.models.list()] == [MODEL]


@feature
def chat() -> None:
    message = MESSAGES.create(**asking("Say what came first"), system="Be brief.")
    assert [block.text for block in message.content] == ["Say what came first"]
    assert message.stop_reason == "end_turn"


@feature
def stream() -> None:
    with MESSAGES.stream(**asking("Say what came first")) as events:
        text = "".join(events.text_stream)
    assert text == "Say what came first"


@feature
def usage() -> None:
    with MESSAGES.stream(**asking("Hello", max_tokens=4)) as events:
        message = events.get_final_message()
    assert message.usage.output_tokens <= 4
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0


@feature
def count_tokens() -> None:
    messages = [{"role": "user", "content": "Hello"}]
    counted = MESSAGES.count_tokens(model=MODEL, messages=messages).input_tokens
    usage = MESSAGES.create(**asking("Hello", max_tokens=1)).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


@feature
def tools_forced() -> None:
    for choice in ({"type": "tool", "name": "get_weather"}, {"type": "any"}):
        single = {**choice, "disable_parallel_tool_use": True}
        message = MESSAGES.create(**asking("Hello"), tools=[TOOL], tool_choice=single)
        [call] = message.content
        assert call.input["city"] in FORECAST
        assert message.stop_reason == "tool_use"


@feature
def tools_streamed() -> None:
    with MESSAGES.stream(**asking(QUESTION), tools=[TOOL]) as events:
        kinds = {event.type for event in events}
        message = events.get_final_message()
    assert "input_json" in kinds
    cities = [block.input["city"] for block in message.content]
    assert cities == ["Paris", "Oslo"]


@feature
def tools_loop() -> None:
    given = asking(QUESTION)
    asked = MESSAGES.create(**given, tools=[TOOL])
    results = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": get_weather(**call.input),
        }
        for call in asked.content
    ]
    given["messages"] += [
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": results},
    ]
    assert MESSAGES.create(**given, tools=[TOOL]).content[0].text == SAID


@feature
def parallel_off() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    message = MESSAGES.create(**asking(QUESTION), tools=[TOOL], tool_choice=choice)
    assert [block.type for block in message.content] == ["tool_use"]


@feature
def structured() -> None:
    message = MESSAGES.parse(**asking("Hello"), output_format=Report)
    assert isinstance(message.parsed_output, Report)


@feature
def reasoning() -> None:
    given = asking("Think: two and two?", max_tokens=1500)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with MESSAGES.stream(**given, thinking=thinking) as events:
        kinds = {event.type for event in events}
        thought, text = events.get_final_message().content
    assert "thinking" in kinds
    assert thought.thinking == "Two and two make four."
    assert text.text == "It is four."


@feature
def error_model() -> None:
    with raises(anthropic.NotFoundError):
        MESSAGES.create(**{**asking("Hello"), "model": "claude-9"})


@feature
def error_context() -> None:
    with raises(anthropic.BadRequestError, "maximum context length"):
        MESSAGES.create(**asking(TOO_LONG))


@feature
def error_key() -> None:
    with raises(anthropic.AuthenticationError):
        CLIENT.with_options(api_key="wrong").messages.create(**asking("Hello"))


@feature
def error_rate() -> None:
    narrow = CLIENT.with_options(api_key=NARROW_KEY)
    held = narrow.messages.create(**asking("Count"), stream=True)
    next(iter(held))
    with raises(anthropic.RateLimitError):
        narrow.messages.create(**asking("Hello", max_tokens=1))
    Timer(1, held.close).start()
    patient = narrow.with_options(max_retries=5)
    assert patient.messages.create(**asking("Hello", max_tokens=1)).usage


@feature
def cancel() -> None:
    with MESSAGES.stream(**asking("Count")) as events:
        next(iter(events))
    with raises(anthropic.APITimeoutError):
        CLIENT.with_options(timeout=0.05).messages.create(**asking("Count"))
    wait_until_idle()


@feature
def asynchronous() -> None:
    async def ask_all() -> list[str]:
        client = anthropic.AsyncAnthropic(base_url=ROOT, api_key=KEY)
        async with client:
            asked = [
                client.messages.create(**asking(f"first {number}"))
                for number in range(8)
            ]
            return [reply.content[0].text for reply in await asyncio.gather(*asked)]

    assert asyncio.run(ask_all()) == [f"first {number}" for number in range(8)]


run_features()
