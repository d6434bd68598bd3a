"""The package `openai`, for Python."""

import asyncio
import json
from threading import Timer
from typing import Literal

import openai
from harness import (
    FORECAST,
    KEY,
    MODEL,
    NARROW_KEY,
    QUESTION,
    SAID,
    TOO_LONG,
    V1,
    WEATHER,
    feature,
    get_weather,
    raises,
    run_features,
    wait_until_idle,
)
from pydantic import BaseModel, Field

CLIENT = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
CHAT = CLIENT.chat.completions
HELLO = [{"role": "user", "content": "Hello"}]
COUNT = [{"role": "user", "content": "Count"}]
ASKED = [{"role": "user", "content": QUESTION}]


class Report(BaseModel):
    """What a reply is parsed into; any model fills it within few tokens."""

    sky: Literal["sun", "rain"]
    degrees: int = Field(ge=-30, le=50)
    is_windy: bool


@feature
def models() -> None:
    assert [model.id for model in CLIENT.models.list()] == [MODEL]
    assert CLIENT.models.retrieve(MODEL).id == MODEL


@feature
def chat() -> None:
    completion = CHAT.create(model=MODEL, messages=HELLO, max_completion_tokens=8, n=2)
    assert [choice.index for choice in completion.choices] == [0, 1]
    assert completion.choices[0].message.role == "assistant"
    assert completion.usage.completion_tokens == 16


@feature
def stream() -> None:
    given = {"model": MODEL, "messages": HELLO, "max_tokens": 8, "temperature": 0}
    chunks = list(CHAT.create(**given, stream=True))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    whole = CHAT.create(**given)
    assert streamed == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"


@feature
def usage() -> None:
    *chunks, last = CHAT.create(
        model=MODEL,
        messages=HELLO,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage.completion_tokens == 8


@feature
def completions() -> None:
    given = {"model": MODEL, "prompt": ["def f(", "class A"], "max_tokens": 6}
    completion = CLIENT.completions.create(**given, temperature=0)
    texts = ["", ""]
    for chunk in CLIENT.completions.create(**given, temperature=0, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert [choice.text for choice in completion.choices] == texts


@feature
def logprobs() -> None:
    completion = CHAT.create(
        model=MODEL, messages=HELLO, max_tokens=4, logprobs=True, top_logprobs=3
    )
    [choice] = completion.choices
    assert len(choice.logprobs.content) == 4
    assert all(len(token.top_logprobs) == 3 for token in choice.logprobs.content)
    text = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
    assert text.decode(errors="replace") == choice.message.content


@feature
def count_tokens() -> None:
    counted = CLIENT.responses.input_tokens.count(model=MODEL, input="Hello")
    response = CLIENT.responses.create(
        model=MODEL, input="Hello", store=False, max_output_tokens=16
    )
    assert counted.input_tokens == response.usage.input_tokens


@feature
def tools_forced() -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in (named, "required"):
        completion = CHAT.create(
            model=MODEL,
            messages=HELLO,
            tools=[WEATHER],
            tool_choice=choice,
            parallel_tool_calls=False,
        )
        call = completion.choices[0].message.tool_calls[0].function
        assert call.name == "get_weather"
        assert json.loads(call.arguments)["city"] in FORECAST


@feature
def tools_streamed() -> None:
    with CHAT.stream(model=MODEL, messages=ASKED, tools=[WEATHER]) as events:
        kinds = {event.type for event in events}
        completion = events.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds
    [choice] = completion.choices
    assert choice.finish_reason == "tool_calls"
    cities = [json.loads(c.function.arguments) for c in choice.message.tool_calls]
    assert cities == [{"city": "Paris"}, {"city": "Oslo"}]


@feature
def tools_loop() -> None:
    asked = CHAT.create(model=MODEL, messages=ASKED, tools=[WEATHER]).choices[0]
    assert asked.finish_reason == "tool_calls"
    assert len(asked.message.tool_calls) == 2
    results = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": get_weather(**json.loads(call.function.arguments)),
        }
        for call in asked.message.tool_calls
    ]
    turns = [*ASKED, asked.message, *results]
    answer = CHAT.create(model=MODEL, messages=turns, tools=[WEATHER]).choices[0]
    assert answer.message.content == SAID
    assert answer.finish_reason == "stop"


@feature
def parallel_off() -> None:
    asked = CHAT.create(
        model=MODEL, messages=ASKED, tools=[WEATHER], parallel_tool_calls=False
    )
    assert len(asked.choices[0].message.tool_calls) == 1


@feature
def structured() -> None:
    for temperature in (0.0, 1.0):
        completion = CHAT.parse(
            model=MODEL,
            messages=HELLO,
            response_format=Report,
            temperature=temperature,
        )
        assert isinstance(completion.choices[0].message.parsed, Report)


@feature
def structured_streamed() -> None:
    given = {"model": MODEL, "messages": HELLO, "response_format": Report}
    with CHAT.stream(**given) as events:
        for _ in events:
            pass
        completion = events.get_final_completion()
    assert isinstance(completion.choices[0].message.parsed, Report)


@feature
def tools_parsed() -> None:
    class Forecast(BaseModel):
        report: Report

    completion = CHAT.parse(
        model=MODEL,
        messages=HELLO,
        tools=[openai.pydantic_function_tool(Forecast)],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    [call] = completion.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Forecast)


@feature
def reasoning() -> None:
    thinks = [{"role": "user", "content": "Think: two and two?"}]
    message = CHAT.create(model=MODEL, messages=thinks).choices[0].message
    assert message.content == "It is four."
    assert message.reasoning_content == "Two and two make four."
    streamed = ""
    for chunk in CHAT.create(model=MODEL, messages=thinks, stream=True):
        streamed += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
    assert streamed == message.reasoning_content


@feature
def responses() -> None:
    response = CLIENT.responses.create(model=MODEL, input="Say what came first")
    assert response.status == "completed"
    assert response.output_text == "Say what came first"
    assert response.usage.output_tokens > 0
    assert CLIENT.responses.retrieve(response.id).output_text == response.output_text
    CLIENT.responses.delete(response.id)
    with raises(openai.NotFoundError):
        CLIENT.responses.retrieve(response.id)


@feature
def responses_streamed() -> None:
    with CLIENT.responses.stream(model=MODEL, input="Think: 2 + 2?") as events:
        kinds = [event.type for event in events]
        response = events.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds
    assert "response.reasoning_text.delta" in kinds
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output_text == "It is four."


@feature
def responses_parsed() -> None:
    response = CLIENT.responses.parse(model=MODEL, input="Hello", text_format=Report)
    assert isinstance(response.output_parsed, Report)
    with CLIENT.responses.stream(
        model=MODEL, input="Hello", text_format=Report
    ) as events:
        assert isinstance(events.get_final_response().output_parsed, Report)


@feature
def responses_loop() -> None:
    tool = {"type": "function", **WEATHER["function"], "strict": True}
    given = {"model": MODEL, "tools": [tool]}
    asked = CLIENT.responses.create(**given, input=QUESTION)
    results = [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": get_weather(**json.loads(call.arguments)),
        }
        for call in asked.output
    ]
    stored = CLIENT.responses.create(
        **given, input=results, previous_response_id=asked.id
    )
    sent = [{"role": "user", "content": QUESTION}, *asked.output, *results]
    unstored = CLIENT.responses.create(**given, input=sent, store=False)
    assert stored.output_text == unstored.output_text == SAID
    with CLIENT.responses.stream(**given, input=QUESTION) as events:
        kinds = {event.type for event in events}
    assert "response.function_call_arguments.delta" in kinds


@feature
def responses_custom() -> None:
    tool = {"type": "custom", "name": "get_weather"}
    given = {"model": MODEL, "tools": [tool]}
    asked = CLIENT.responses.create(**given, input=QUESTION)
    assert [call.type for call in asked.output] == ["custom_tool_call"] * 2
    results = [
        {
            "type": "custom_tool_call_output",
            "call_id": call.call_id,
            "output": get_weather(call.input),
        }
        for call in asked.output
    ]
    sent = [{"role": "user", "content": QUESTION}, *asked.output, *results]
    assert CLIENT.responses.create(**given, input=sent).output_text == SAID
    with CLIENT.responses.stream(**given, input=QUESTION) as events:
        told = [*events]
    kinds = [event.type for event in told]
    assert kinds.count("response.custom_tool_call_input.done") == 2
    deltas = "response.custom_tool_call_input.delta"
    text = "".join(event.delta for event in told if event.type == deltas)
    assert text == "".join(call.input for call in asked.output)


@feature
def embeddings() -> None:
    texts = ["one text", "another"]
    packed = CLIENT.embeddings.create(model=MODEL, input=texts)
    plain = CLIENT.embeddings.create(model=MODEL, input=texts, encoding_format="float")
    for index in (0, 1):
        pairs = zip(
            packed.data[index].embedding, plain.data[index].embedding, strict=True
        )
        assert all(abs(one - other) < 1e-3 for one, other in pairs)
    assert packed.usage.prompt_tokens > 0


@feature
def error_model() -> None:
    with raises(openai.NotFoundError, "gpt-9"):
        CHAT.create(model="gpt-9", messages=HELLO)


@feature
def error_context() -> None:
    messages = [{"role": "user", "content": TOO_LONG}]
    with raises(openai.BadRequestError, "This model's maximum context length is"):
        CHAT.create(model=MODEL, messages=messages)


@feature
def error_key() -> None:
    with raises(openai.AuthenticationError):
        CLIENT.with_options(api_key="wrong").models.list()


@feature
def error_rate() -> None:
    narrow = CLIENT.with_options(api_key=NARROW_KEY)
    held = narrow.chat.completions.create(model=MODEL, messages=COUNT, stream=True)
    next(iter(held))
    with raises(openai.RateLimitError, "concurrent requests"):
        narrow.models.list()
    Timer(1, held.close).start()
    assert narrow.with_options(max_retries=5).models.list().data


@feature
def cancel() -> None:
    chunks = CHAT.create(model=MODEL, messages=COUNT, stream=True)
    next(iter(chunks))
    chunks.close()
    with raises(openai.APITimeoutError):
        hasty = CLIENT.with_options(timeout=0.05)
        hasty.chat.completions.create(model=MODEL, messages=COUNT)
    wait_until_idle()
    assert CHAT.create(model=MODEL, messages=HELLO, max_tokens=2).choices


@feature
def asynchronous() -> None:
    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        reply = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": f"first {number}"}],
        )
        return reply.choices[0].message.content

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=V1, api_key=KEY) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(8)))

    assert asyncio.run(ask_all()) == [f"first {number}" for number in range(8)]


run_features()
