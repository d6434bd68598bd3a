"""The package `langchain-openai`."""

import asyncio
from typing import Literal

import openai
from harness import (
    FORECAST,
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
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel

GIVEN = {"model": MODEL, "base_url": V1, "api_key": KEY, "max_retries": 0}
CHAT = ChatOpenAI(**GIVEN)


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    is_windy: bool


@tool
def get_weather(city: Literal["Paris", "Oslo"]) -> str:
    """Tells the weather of a city."""
    return forecast(city)


@feature
def chat() -> None:
    reply = CHAT.invoke("Say what came first")
    assert reply.content == "Say what came first"
    assert reply.usage_metadata["output_tokens"] > 0


@feature
def stream() -> None:
    text = "".join(chunk.content for chunk in CHAT.stream("Say what came first"))
    assert text == "Say what came first"


@feature
def usage() -> None:
    chunks = ChatOpenAI(**GIVEN, stream_usage=True).stream("first of all")
    whole = next(chunks)
    for chunk in chunks:
        whole += chunk
    assert whole.usage_metadata["output_tokens"] > 0


@feature
def completions() -> None:
    assert OpenAI(**GIVEN, max_tokens=4).invoke("def f(")


@feature
def logprobs() -> None:
    reply = CHAT.bind(logprobs=True, top_logprobs=2, max_tokens=4).invoke("Hello")
    first = reply.response_metadata["logprobs"]["content"][0]
    assert len(first["top_logprobs"]) == 2


@feature
def tools_forced() -> None:
    for choice in ("get_weather", "any"):
        bound = CHAT.bind_tools(
            [get_weather], tool_choice=choice, parallel_tool_calls=False
        )
        [call] = bound.invoke("Hello").tool_calls
        assert call["args"]["city"] in FORECAST


@feature
def tools_streamed() -> None:
    chunks = CHAT.bind_tools([get_weather]).stream(QUESTION)
    whole = next(chunks)
    for chunk in chunks:
        whole += chunk
    assert [call["args"]["city"] for call in whole.tool_calls] == ["Paris", "Oslo"]


@feature
def tools_loop() -> None:
    bound = CHAT.bind_tools([get_weather])
    messages = [HumanMessage(QUESTION)]
    messages.append(bound.invoke(messages))
    messages += [get_weather.invoke(call) for call in messages[-1].tool_calls]
    assert bound.invoke(messages).content == SAID


@feature
def structured() -> None:
    for method in ("json_schema", "function_calling"):
        asks = CHAT.with_structured_output(Report, method=method)
        assert isinstance(asks.invoke("Hello"), Report)


@feature
def structured_streamed() -> None:
    *_, last = CHAT.with_structured_output(Report).stream("Hello")
    assert isinstance(last, Report)


@feature
def responses() -> None:
    reply = ChatOpenAI(**GIVEN, use_responses_api=True).invoke("Say what came first")
    assert reply.text == "Say what came first"


@feature
def responses_streamed() -> None:
    asks = ChatOpenAI(**GIVEN, use_responses_api=True)
    text = "".join(chunk.text for chunk in asks.stream("Say what came first"))
    assert text == "Say what came first"


@feature
def responses_parsed() -> None:
    asks = ChatOpenAI(**GIVEN, use_responses_api=True).with_structured_output(Report)
    assert isinstance(asks.invoke("Hello"), Report)


@feature
def responses_loop() -> None:
    for stored in (False, True):
        asks = ChatOpenAI(
            **GIVEN, use_responses_api=True, use_previous_response_id=stored
        ).bind_tools([get_weather])
        messages = [HumanMessage(QUESTION)]
        messages.append(asks.invoke(messages))
        messages += [get_weather.invoke(call) for call in messages[-1].tool_calls]
        assert asks.invoke(messages).text == SAID


@feature
def embeddings() -> None:
    asks = OpenAIEmbeddings(**GIVEN, check_embedding_ctx_length=False)
    one, other = asks.embed_documents(["one text", "another"])
    assert len(one) == len(other) == len(asks.embed_query("one text"))


@feature
def error_model() -> None:
    with raises(openai.NotFoundError):
        ChatOpenAI(**{**GIVEN, "model": "gpt-9"}).invoke("Hello")


@feature
def error_context() -> None:
    with raises(ContextOverflowError):
        CHAT.invoke(TOO_LONG)


@feature
def error_key() -> None:
    with raises(openai.AuthenticationError):
        ChatOpenAI(**{**GIVEN, "api_key": "wrong"}).invoke("Hello")


@feature
def asynchronous() -> None:
    replies = asyncio.run(CHAT.abatch([f"first {number}" for number in range(8)]))
    assert [each.content for each in replies] == [f"first {n}" for n in range(8)]


run_features()
