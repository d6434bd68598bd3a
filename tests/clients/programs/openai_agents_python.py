"""The package `openai-agents`, with responses (its default) and with chats."""

import asyncio
from typing import Literal

import openai
from agents import (
    Agent,
    CodeInterpreterTool,
    CustomTool,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ToolSearchTool,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
    tool_namespace,
)
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

set_tracing_disabled(disabled=True)


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    is_windy: bool


@function_tool
def get_weather(city: Literal["Paris", "Oslo"]) -> str:
    """Tells the weather of a city."""
    return forecast(city)


def model(kind: type[Model]) -> Model:
    client = openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return kind(MODEL, openai_client=client)


def run(kind: type[Model], said: str, **options: object) -> object:
    agent = Agent(name="agent", model=model(kind), **options)
    return asyncio.run(Runner.run(agent, said)).final_output


def run_streamed(kind: type[Model], said: str, **options: object) -> object:
    async def ask() -> tuple[object, set[str]]:
        agent = Agent(name="agent", model=model(kind), **options)
        streamed = Runner.run_streamed(agent, said)
        kinds = {event.type async for event in streamed.stream_events()}
        return streamed.final_output, kinds

    output, kinds = asyncio.run(ask())
    assert "raw_response_event" in kinds
    return output


@feature
def chat() -> None:
    assert run(OpenAIChatCompletionsModel, "first of all") == "first of all"


@feature
def stream() -> None:
    assert run_streamed(OpenAIChatCompletionsModel, "first of all") == "first of all"


@feature
def tools_loop() -> None:
    told = run(
        OpenAIChatCompletionsModel,
        QUESTION,
        tools=[get_weather],
        model_settings=ModelSettings(parallel_tool_calls=True),
    )
    assert told == SAID


@feature
def tools_streamed() -> None:
    tools = [get_weather]
    assert run_streamed(OpenAIChatCompletionsModel, QUESTION, tools=tools) == SAID


@feature
def structured() -> None:
    made = run(OpenAIChatCompletionsModel, "Hello", output_type=Report)
    assert isinstance(made, Report)


@feature
def responses() -> None:
    assert run(OpenAIResponsesModel, "first of all") == "first of all"


@feature
def responses_streamed() -> None:
    tools = [get_weather]
    assert run_streamed(OpenAIResponsesModel, QUESTION, tools=tools) == SAID


@feature
def responses_parsed() -> None:
    assert isinstance(run(OpenAIResponsesModel, "Hello", output_type=Report), Report)


@feature
def responses_loop() -> None:
    assert run(OpenAIResponsesModel, QUESTION, tools=[get_weather]) == SAID


@feature
def responses_hosted() -> None:
    container = {"type": "code_interpreter", "container": {"type": "auto"}}
    tools = [WebSearchTool(), CodeInterpreterTool(tool_config=container), get_weather]
    assert run(OpenAIResponsesModel, QUESTION, tools=tools) == SAID
    assert run_streamed(OpenAIResponsesModel, QUESTION, tools=tools) == SAID
    alone = run(OpenAIResponsesModel, "first of all", tools=[WebSearchTool()])
    assert alone == "first of all"


@feature
def responses_custom() -> None:
    async def told(_: object, city: str) -> str:
        return forecast(city)

    tool = CustomTool(
        name="get_weather", description="Tells the weather.", on_invoke_tool=told
    )
    assert run(OpenAIResponsesModel, QUESTION, tools=[tool]) == SAID
    assert run_streamed(OpenAIResponsesModel, QUESTION, tools=[tool]) == SAID


@feature
def responses_namespaces() -> None:
    space = tool_namespace(name="sky", description="The sky.", tools=[get_weather])
    assert run(OpenAIResponsesModel, QUESTION, tools=space) == SAID
    deferred = function_tool(forecast, name_override="get_weather", defer_loading=True)
    tools = [deferred, ToolSearchTool()]
    assert run_streamed(OpenAIResponsesModel, QUESTION, tools=tools) == SAID


@feature
def responses_previous() -> None:
    async def ask() -> str:
        agent = Agent(name="agent", model=model(OpenAIResponsesModel))
        begun = await Runner.run(agent, "My first name is Ada")
        asked = await Runner.run(
            agent,
            "What did I say first?",
            previous_response_id=begun.last_response_id,
        )
        return asked.final_output

    assert asyncio.run(ask()) == "My first name is Ada"


@feature
def error_context() -> None:
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        with raises(openai.BadRequestError, "maximum context length"):
            run(kind, TOO_LONG)


run_features()
