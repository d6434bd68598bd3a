"""The package `litellm`: its functions, and its router with fallbacks."""

import asyncio
import json
import os
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it is fetched otherwise

import litellm
from harness import (
    FORECAST,
    KEY,
    MODEL,
    NARROW_KEY,
    QUESTION,
    ROOT,
    SAID,
    TOO_LONG,
    V1,
    WEATHER,
    feature,
    get_weather,
    raises,
    run_features,
)
from pydantic import BaseModel

litellm.suppress_debug_info = True
PROVIDERS = ("openai", "hosted_vllm")


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    is_windy: bool


def given(content: str, provider: str = "openai") -> dict[str, object]:
    return {
        "model": f"{provider}/{MODEL}",
        "api_base": V1,
        "api_key": KEY,
        "num_retries": 0,
        "max_retries": 0,
        "messages": [{"role": "user", "content": content}],
    }


@feature
def chat() -> None:
    for provider in PROVIDERS:
        reply = litellm.completion(**given("Say what came first", provider))
        assert reply.choices[0].message.content == "Say what came first"


@feature
def stream() -> None:
    for provider in PROVIDERS:
        asked = given("Say what came first", provider)
        chunks = list(litellm.completion(**asked, stream=True))
        whole = litellm.stream_chunk_builder(chunks)
        assert whole.choices[0].message.content == "Say what came first"


@feature
def usage() -> None:
    options = {"include_usage": True}
    *_, last = litellm.completion(
        **given("Hello"), max_tokens=4, stream=True, stream_options=options
    )
    assert 0 < last.usage.completion_tokens <= 4


@feature
def completions() -> None:
    reply = litellm.text_completion(
        model=f"text-completion-openai/{MODEL}",
        prompt="def f(",
        api_base=V1,
        api_key=KEY,
        max_tokens=4,
    )
    assert reply.choices[0].text


@feature
def tools_forced() -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    for provider in PROVIDERS:
        asked = given("Hello", provider)
        reply = litellm.completion(**asked, tools=[WEATHER], tool_choice=choice)
        [call] = reply.choices[0].message.tool_calls
        assert json.loads(call.function.arguments)["city"] in FORECAST


@feature
def tools_loop() -> None:
    for provider in PROVIDERS:
        asked = given(QUESTION, provider)
        message = litellm.completion(**asked, tools=[WEATHER]).choices[0].message
        asked["messages"] += [
            message,
            *(
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": get_weather(**json.loads(call.function.arguments)),
                }
                for call in message.tool_calls
            ),
        ]
        answer = litellm.completion(**asked, tools=[WEATHER])
        assert answer.choices[0].message.content == SAID


@feature
def structured() -> None:
    for provider in PROVIDERS:
        reply = litellm.completion(**given("Hello", provider), response_format=Report)
        Report.model_validate_json(reply.choices[0].message.content)


@feature
def reasoning() -> None:
    for provider in PROVIDERS:
        message = litellm.completion(**given("Think: 2 + 2?", provider))
        message = message.choices[0].message
        assert message.reasoning_content == "Two and two make four."
        assert message.content == "It is four."


@feature
def responses() -> None:
    response = litellm.responses(
        model=f"openai/{MODEL}", input="Say what came first", api_base=V1, api_key=KEY
    )
    assert response.output[0].content[0].text == "Say what came first"


@feature
def messages_api() -> None:
    asked = {**given("Say what came first", "anthropic"), "api_base": ROOT}
    reply = litellm.completion(**asked, max_tokens=100)
    assert reply.choices[0].message.content == "Say what came first"


@feature
def embeddings() -> None:
    reply = litellm.embedding(
        model=f"openai/{MODEL}", input=["one", "two"], api_base=V1, api_key=KEY
    )
    assert len(reply.data) == 2


@feature
def error_model() -> None:
    with raises(litellm.NotFoundError):
        litellm.completion(**{**given("Hello"), "model": "openai/gpt-9"})


@feature
def error_context() -> None:
    for provider in PROVIDERS:
        with raises(litellm.ContextWindowExceededError):
            litellm.completion(**given(TOO_LONG, provider))


@feature
def context_fallback() -> None:
    def deployment(name: str, **parameters: object) -> dict[str, object]:
        given = {"model": f"openai/{MODEL}", "api_base": V1, "api_key": KEY}
        return {"model_name": name, "litellm_params": {**given, **parameters}}

    router = litellm.Router(
        model_list=[
            deployment("small"),
            deployment("large", extra_body={"truncate_prompt_tokens": -1}),
        ],
        context_window_fallbacks=[{"small": ["large"]}],
        num_retries=0,
    )
    messages = [{"role": "user", "content": TOO_LONG}]
    with raises(litellm.ContextWindowExceededError):
        router.completion(
            model="small", messages=messages, max_tokens=4, disable_fallbacks=True
        )
    reply = router.completion(model="small", messages=messages, max_tokens=4)
    assert reply.usage.completion_tokens <= 4


@feature
def error_key() -> None:
    with raises(litellm.AuthenticationError):
        litellm.completion(**{**given("Hello"), "api_key": "wrong"})


@feature
def error_rate() -> None:
    narrow = {**given("Count"), "api_key": NARROW_KEY}
    held = litellm.completion(**narrow, stream=True)
    next(iter(held))
    with raises(litellm.RateLimitError):
        litellm.completion(**narrow)
    held.completion_stream.close()


@feature
def asynchronous() -> None:
    async def ask_all() -> list[str]:
        asked = [litellm.acompletion(**given(f"first {n}")) for n in range(8)]
        return [
            reply.choices[0].message.content for reply in await asyncio.gather(*asked)
        ]

    assert asyncio.run(ask_all()) == [f"first {n}" for n in range(8)]


run_features()
