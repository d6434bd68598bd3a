"""Parameters that docs/api_parameters.md names reach the engine, or change nothing."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.request import FinishReason
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import NO_DEFAULTS
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.completion import CompletionRequest
from hookline_server.protocol.generation import GenerationRequest, sampling_params
from hookline_server.protocol.responses_request import (
    ResponsesRequest,
    generation_request,
)
from hookline_server.protocol.wire import decode
from hookline_testing.described_api import event_data
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

PAGE = (Path(__file__).parents[2] / "docs" / "api_parameters.md").read_text("utf-8")
DEFAULTS = SamplingParams(max_tokens=None)
HELLO = [{"role": "user", "content": "Hi"}]
PATHS = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "tokenize": "/tokenize",
    "detokenize": "/detokenize",
    "embeddings": "/v1/embeddings",
    "pooling": "/pooling",
}
BODIES: Mapping[str, dict[str, Any]] = {
    "completions": {"prompt": "ab"},
    "chat": {"messages": HELLO},
    "responses": {"input": "Hi"},
    "messages": {"messages": HELLO, "max_tokens": 3},
    "count_tokens": {"messages": HELLO},
    "tokenize": {"prompt": "ab"},
    "detokenize": {"tokens": [65]},
    "embeddings": {"input": "ab"},
    "pooling": {"input": "ab"},
}
EMBEDS = PoolingFacts(
    kind=PoolingType.LAST, normalize=True, hidden_size=8, is_matryoshka=False
)
IGNORED = [
    (endpoint, name)
    for name, endpoints in re.findall(r"\| `(\w+)` \| ([\w, ]+) \| ignored", PAGE)
    for endpoint in endpoints.split(", ")
]
KINDS: Mapping[str, type[GenerationRequest]] = {
    "completions": CompletionRequest,
    "chat": ChatRequest,
}
SAMPLING: Mapping[str, tuple[object, object]] = {
    "max_tokens": (5, 5),
    "n": (3, 3),
    "temperature": (0.5, 0.5),
    "top_p": (0.25, 0.25),
    "top_k": (7, 7),
    "min_p": (0.125, 0.125),
    "seed": (11, 11),
    "presence_penalty": (1.5, 1.5),
    "frequency_penalty": (-1.5, -1.5),
    "repetition_penalty": (1.25, 1.25),
    "logit_bias": ({"5": 200}, {5: 100.0}),
    "allowed_token_ids": ([1, 2], (1, 2)),
    "bad_words": (["x"], ("x",)),
    "stop": (["y"], ("y",)),
    "stop_token_ids": ([3], (3,)),
    "min_tokens": (2, 2),
    "ignore_eos": (True, True),
    "include_stop_str_in_output": (True, True),
    "skip_special_tokens": (False, False),
    "speculation": (False, False),
}
"""Value in a request, and in the engine's parameters of the same name."""


def engine_for(endpoint: str) -> FakeEngine:
    """A scripted engine that embeds where the endpoint wants vectors."""
    if endpoint not in {"embeddings", "pooling"}:
        return FakeEngine()
    engine = FakeEngine([""], finish_reason=FinishReason.STOP)
    engine.facts = replace(FACTS, sections={"pooling": EMBEDS})
    return engine


async def post(engine: FakeEngine, endpoint: str, **fields: object) -> tuple[int, Any]:
    """The status and the response, without what differs between two of them."""
    body = {**BODIES[endpoint], **fields}
    async with client_of(engine) as client:
        response = await client.post(PATHS[endpoint], json=body)
        answer = await response.json()
    for name in ("id", "created", "created_at", "completed_at"):
        answer.pop(name, None)
    for item in answer.get("output", ()):
        del item["id"]
    return response.status, answer


@pytest.mark.parametrize("endpoint", KINDS)
@pytest.mark.parametrize("name", SAMPLING)
def test_parameters_reach_the_engine(endpoint: str, name: str) -> None:
    """
    Each has its value there, which is not the default, and null means the default.
    """
    given, expected = SAMPLING[name]

    def read(value: object) -> object:
        data = json.dumps({**BODIES[endpoint], name: value}).encode()
        request = decode(data, KINDS[endpoint])
        params = sampling_params(request, NO_DEFAULTS, max_tokens=request.max_tokens)
        return getattr(params, name)

    assert read(given) == expected
    assert read(given) != getattr(DEFAULTS, name)
    assert read(None) == getattr(DEFAULTS, name)


@pytest.mark.parametrize(
    "name", sorted(SAMPLING.keys() & set(ResponsesRequest.__struct_fields__))
)
def test_parameters_of_responses_reach_the_engine(name: str) -> None:
    """
    Those that the request has in common with chats, likewise.
    """
    given, expected = SAMPLING[name]

    def read(value: object) -> object:
        body = json.dumps({**BODIES["responses"], name: value}).encode()
        request = generation_request(decode(body, ResponsesRequest))
        params = sampling_params(request, NO_DEFAULTS, max_tokens=None)
        return getattr(params, name)

    assert read(given) == expected
    assert read(None) == getattr(DEFAULTS, name)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
async def test_delivery_reaches_the_engine(endpoint: str) -> None:
    """
    Priority and salt are not parameters of sampling.
    """
    engine = FakeEngine()

    await post(engine, endpoint, priority=-3, cache_salt="s")

    [stream] = engine.streams
    assert stream.facts.priority == -3
    assert stream.cache_salt == "s"


@pytest.mark.parametrize("value", ["text", 5, {"a": [None]}], ids=str)
@pytest.mark.parametrize("endpoint", sorted({endpoint for endpoint, _ in IGNORED}))
async def test_ignored_parameters_change_nothing(endpoint: str, value: object) -> None:
    """
    With all of them, response and engine are as without, whatever their types.
    """
    ignored = {name: value for each, name in IGNORED if each == endpoint}
    bare, full = engine_for(endpoint), engine_for(endpoint)

    expected = await post(bare, endpoint)
    found = await post(full, endpoint, **ignored)

    assert expected[0] == 200
    assert found == expected
    assert [each.params for each in full.streams] == [
        each.params for each in bare.streams
    ]
    assert full.variables == bare.variables


@pytest.mark.parametrize("endpoint", PATHS)
async def test_another_model_is_not_found(endpoint: str) -> None:
    """
    The served model may be named, or none; another is a 404.
    """
    statuses = [
        (await post(engine_for(endpoint), endpoint, model=name))[0]
        for name in (None, "fake", "other")
    ]

    assert statuses == [200, 200, 404]


async def test_usage_comes_where_it_is_asked_for() -> None:
    """
    In a last chunk of its own, or in each.
    """
    found = {}
    for name in ("include_usage", "continuous_usage_stats"):
        options = {"include_usage": True, name: True}
        body = {**BODIES["completions"], "stream": True, "stream_options": options}
        async with client_of(FakeEngine()) as client:
            response = await client.post("/v1/completions", json=body)
            *chunks, _ = event_data(await response.text())
        found[name] = [json.loads(each)["usage"] is not None for each in chunks]

    assert found["include_usage"] == [False, False, True]
    assert found["continuous_usage_stats"] == [True, True, True]


@pytest.mark.parametrize("endpoint", ["chat", "tokenize"])
async def test_generation_prompt_can_be_left_out(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The template hears of it; by default the prompt ends with the start of a reply.
    """
    heard = []

    async def render(*_: object, **options: Any) -> list[int]:
        heard.append(options["add_generation_prompt"])
        return [65, 66]

    engine = FakeEngine()
    monkeypatch.setattr(engine, "render_chat", render)
    for value in (None, True, False):
        body: dict[str, object] = {"prompt": None, "messages": HELLO}
        await post(engine, endpoint, **body, add_generation_prompt=value)

    assert heard == [True, True, False]


async def test_special_tokens_of_a_prompt_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    The tokenizer hears of it, and gets the prompt.
    """
    heard = []

    async def encode(text: str, **options: Any) -> list[int]:
        heard.append((text, options["add_special_tokens"]))
        return [65]

    engine = FakeEngine()
    monkeypatch.setattr(engine, "encode", encode)
    for value in (None, True, False):
        await post(engine, "tokenize", add_special_tokens=value)

    assert heard == [("ab", True), ("ab", True), ("ab", False)]


@pytest.mark.parametrize(
    ("endpoint", "fields", "expected"),
    [
        ("tokenize", {"documents": [{"a": "b"}]}, {"documents": [{"a": "b"}]}),
        ("tokenize", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("tokenize", {"chat_template_kwargs": {"a": 1}}, {"a": 1}),
        (
            "count_tokens",
            {"thinking": {"type": "disabled"}},
            {"enable_thinking": False, "thinking": False},
        ),
        (
            "count_tokens",
            {
                "tools": [{"name": "f", "input_schema": {}}],
                "tool_choice": {"type": "none"},
            },
            {},
        ),
    ],
)
async def test_counted_prompts_have_their_variables(
    endpoint: str, fields: dict[str, object], expected: dict[str, object]
) -> None:
    """
    A prompt that is only counted is rendered like one that is served.
    """
    engine = FakeEngine()

    status, answer = await post(
        engine, endpoint, **{"prompt": None, "messages": HELLO, **fields}
    )

    assert status == 200, answer
    assert engine.variables == [expected]


@pytest.mark.parametrize("field", ["output_format", "output_config"])
async def test_a_count_checks_the_format(field: str) -> None:
    """
    It adds no tokens, but one that a message could not have is refused.
    """
    right: object = {"type": "json_schema", "schema": {"type": "object"}}
    wrong: object = {"type": "xml"}

    def asked(form: object) -> dict[str, object]:
        return {field: {"format": form} if field == "output_config" else form}

    bare = await post(FakeEngine(), "count_tokens")
    counted = await post(FakeEngine(), "count_tokens", **asked(right))
    refused = await post(FakeEngine(), "count_tokens", **asked(wrong))

    assert counted == bare
    assert refused[0] == 400


def test_all_sampling_parameters_are_tried() -> None:
    """
    What the engine's parameters have by the name of a field is in the table above.
    """
    own = {field.name for field in msgspec.structs.fields(type(DEFAULTS))}
    shared = own & {field.name for field in msgspec.structs.fields(CompletionRequest)}

    assert shared - set(SAMPLING) == {
        "logprobs",
        "prompt_logprobs",
        "structured_outputs",
    }
