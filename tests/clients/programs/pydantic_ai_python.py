"""The package `pydantic-ai`, with chats and with responses."""

import asyncio
from typing import Literal

from harness import (
    KEY,
    MODEL,
    QUESTION,
    SAID,
    TOO_LONG,
    V1,
    feature,
    raises,
    run_features,
)
from harness import get_weather as forecast
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

PROVIDER = OpenAIProvider(base_url=V1, api_key=KEY)
CHAT = OpenAIChatModel(MODEL, provider=PROVIDER)
RESPONSES = OpenAIResponsesModel(MODEL, provider=PROVIDER)


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    is_windy: bool


def get_weather(city: Literal["Paris", "Oslo"]) -> str:
    """Tells the weather of a city."""
    return forecast(city)


@feature
def chat() -> None:
    run = asyncio.run(Agent(CHAT).run("Say what came first"))
    assert run.output == "Say what came first"
    assert run.usage.output_tokens > 0


@feature
def stream() -> None:
    async def ask() -> str:
        async with Agent(CHAT).run_stream("Say what came first") as streamed:
            pieces = [piece async for piece in streamed.stream_text(delta=True)]
        return "".join(pieces)

    assert asyncio.run(ask()) == "Say what came first"


@feature
def tools_loop() -> None:
    run = asyncio.run(Agent(CHAT, tools=[get_weather]).run(QUESTION))
    assert run.output == SAID


@feature
def tools_streamed() -> None:
    async def ask() -> str:
        agent = Agent(CHAT, tools=[get_weather])
        async with agent.run_stream(QUESTION) as streamed:
            return await streamed.get_output()

    assert asyncio.run(ask()) == SAID


@feature
def structured() -> None:
    for kind in (ToolOutput(Report), NativeOutput(Report)):
        run = asyncio.run(Agent(CHAT, output_type=kind).run("Hello"))
        assert isinstance(run.output, Report)


@feature
def reasoning() -> None:
    run = asyncio.run(Agent(CHAT).run("Think: two and two?"))
    thoughts = [
        part.content
        for part in run.all_messages()[-1].parts
        if isinstance(part, ThinkingPart)
    ]
    assert thoughts == ["Two and two make four."]
    assert run.output == "It is four."


@feature
def responses() -> None:
    run = asyncio.run(Agent(RESPONSES).run("Say what came first"))
    assert run.output == "Say what came first"


@feature
def responses_parsed() -> None:
    run = asyncio.run(Agent(RESPONSES, output_type=NativeOutput(Report)).run("Hello"))
    assert isinstance(run.output, Report)


@feature
def responses_loop() -> None:
    run = asyncio.run(Agent(RESPONSES, tools=[get_weather]).run(QUESTION))
    assert run.output == SAID


@feature
def error_context() -> None:
    with raises(ModelHTTPError, "maximum context length"):
        asyncio.run(Agent(CHAT).run(TOO_LONG))


@feature
def error_model() -> None:
    with raises(ModelHTTPError, "404"):
        asyncio.run(Agent(OpenAIChatModel("gpt-9", provider=PROVIDER)).run("Hello"))


run_features()
