"""Every limit of a request: accepted at the limit, refused one above it."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from hookline.request_limits import LIMITS
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
EMBEDDINGS, RESPONSES = "/v1/embeddings", "/v1/responses"
BASE: Mapping[str, dict[str, object]] = {
    COMPLETIONS: {"model": "fake", "prompt": "ab"},
    CHAT: {"model": "fake", "messages": [{"role": "user", "content": "ab"}]},
    EMBEDDINGS: {"model": "fake", "input": "ab"},
    RESPONSES: {"model": "fake", "input": "ab"},
}
VOCABULARY = 2**20
EMBEDS = PoolingFacts(
    kind=PoolingType.LAST,
    normalize=True,
    hidden_size=2**20,
    is_matryoshka=True,
    dimensions=4,
)

Fields = dict[str, object]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def text(num_bytes: int) -> Fields:
    """An object of this size as JSON."""
    return {"a": "x" * (num_bytes - len('{"a":""}'))}


def said(content: object) -> Fields:
    return {"role": "user", "content": content}


def tools(number: int = 1, **fields: object) -> Fields:
    functions = [{"name": f"f{index}", **fields} for index in range(number)]
    found = [{"type": "function", "function": each} for each in functions]
    return {"tools": found, "tool_choice": "none"}


def tools_of_bytes(size: int) -> Fields:
    around = len(msgspec.json.encode(tools(description="")["tools"]))
    return tools(description="x" * (size - around))


def called(arguments: object, *, number: int = 1) -> Fields:
    call = {"function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "tool_calls": [call] * number}
    return {"messages": [message]}


def arguments_of_values(number: int) -> str:
    zeros = ",".join(["0"] * (number - 2))
    return f'{{"a":[{zeros}]}}'


CASES: dict[str, tuple[str, str | None, Fields, Fields]] = {
    "n": (COMPLETIONS, "n", {"n": 128}, {"n": 129}),
    "choices": (
        COMPLETIONS,
        "prompt",
        {"prompt": ["a"] * 8, "n": 128},
        {"prompt": ["a"] * 9, "n": 128},
    ),
    "logprobs": (COMPLETIONS, "logprobs", {"logprobs": 20}, {"logprobs": 21}),
    "logprob_entries": (
        COMPLETIONS,
        "logprobs",
        {"logprobs": 1, "max_tokens": 2**21},
        {"logprobs": 1, "max_tokens": 2**21 + 1},
    ),
    "returned_token_ids": (
        COMPLETIONS,
        "return_token_ids",
        {"return_token_ids": True, "n": 128, "prompt": [97] * 2**15},
        {"return_token_ids": True, "n": 128, "prompt": [97] * (2**15 + 1)},
    ),
    "stop": (COMPLETIONS, "stop", {"stop": ["x"] * 16}, {"stop": ["x"] * 17}),
    "stop_length": (CHAT, "stop", {"stop": "x" * 256}, {"stop": "x" * 257}),
    "stop_token_ids": (
        COMPLETIONS,
        "stop_token_ids",
        {"stop_token_ids": [1] * 1024},
        {"stop_token_ids": [1] * 1025},
    ),
    "allowed_token_ids": (
        COMPLETIONS,
        "allowed_token_ids",
        {"allowed_token_ids": [1] * VOCABULARY},
        {"allowed_token_ids": [1] * (VOCABULARY + 1)},
    ),
    "logit_bias": (
        CHAT,
        "logit_bias",
        {"logit_bias": dict.fromkeys(range(16384), 1)},
        {"logit_bias": dict.fromkeys(range(16385), 1)},
    ),
    "bad_words": (
        COMPLETIONS,
        "bad_words",
        {"bad_words": ["x"] * 1024},
        {"bad_words": ["x"] * 1025},
    ),
    "bad_words_length": (
        COMPLETIONS,
        "bad_words",
        {"bad_words": ["x" * 256]},
        {"bad_words": ["x" * 257]},
    ),
    "bad_words_characters": (
        COMPLETIONS,
        "bad_words",
        {"bad_words": ["x" * 256] * 64},
        {"bad_words": [*["x" * 256] * 64, "x"]},
    ),
    "parameter_entries": (
        COMPLETIONS,
        "prompt",
        {"prompt": ["a", "b"], "allowed_token_ids": [1] * 2**19},
        {"prompt": ["a", "b"], "allowed_token_ids": [1] * 2**19, "bad_words": ["x"]},
    ),
    "messages": (
        CHAT,
        "messages",
        {"messages": [said("x")] * 4096},
        {"messages": [said("x")] * 4097},
    ),
    "content_parts": (
        CHAT,
        "messages",
        {"messages": [said([{"type": "text", "text": "x"}] * 4096)]},
        {"messages": [said([{"type": "text", "text": "x"}] * 2049)] * 2},
    ),
    "tools": (CHAT, "tools", tools(1024), tools(1025)),
    "tools_bytes": (
        CHAT,
        "tools",
        tools_of_bytes(2**20),
        tools_of_bytes(2**20 + 1),
    ),
    "tools_depth": (
        CHAT,
        "tools",
        tools(parameters=nested(61)),
        tools(parameters=nested(62)),
    ),
    "tool_name_length": (
        CHAT,
        "tools[0].function.name",
        tools(name="x" * 128),
        tools(name="x" * 129),
    ),
    "tool_calls": (CHAT, "messages", called("", number=4096), called("", number=4097)),
    "tool_call_values": (
        CHAT,
        "messages[0].tool_calls[0].function.arguments",
        called(arguments_of_values(2**17)),
        called(arguments_of_values(2**17 + 1)),
    ),
    "tool_call_depth": (
        CHAT,
        "messages[0].tool_calls[0].function.arguments",
        called(nested(64)),
        called(nested(65)),
    ),
    "documents": (
        CHAT,
        "documents",
        {"documents": [{}] * 1024},
        {"documents": [{}] * 1025},
    ),
    "chat_template_kwargs": (
        CHAT,
        "chat_template_kwargs",
        {"chat_template_kwargs": text(2**20)},
        {"chat_template_kwargs": text(2**20 + 1)},
    ),
    "chat_template_kwargs_depth": (
        CHAT,
        "chat_template_kwargs",
        {"chat_template_kwargs": nested(16)},
        {"chat_template_kwargs": nested(17)},
    ),
    "chat_template": (
        CHAT,
        "chat_template",
        {"chat_template": "x" * 2**16},
        {"chat_template": "x" * (2**16 + 1)},
    ),
    "metadata": (
        RESPONSES,
        "metadata",
        {"metadata": {str(number): "" for number in range(16)}},
        {"metadata": {str(number): "" for number in range(17)}},
    ),
    "metadata_key": (
        RESPONSES,
        "metadata",
        {"metadata": {"x" * 64: ""}},
        {"metadata": {"x" * 65: ""}},
    ),
    "metadata_value": (
        RESPONSES,
        "metadata",
        {"metadata": {"a": "x" * 512}},
        {"metadata": {"a": "x" * 513}},
    ),
    "kv_transfer_params": (
        COMPLETIONS,
        "kv_transfer_params",
        {"kv_transfer_params": text(2**20)},
        {"kv_transfer_params": text(2**20 + 1)},
    ),
    "kv_transfer_params_depth": (
        COMPLETIONS,
        "kv_transfer_params",
        {"kv_transfer_params": nested(16)},
        {"kv_transfer_params": nested(17)},
    ),
    "embedded_inputs": (
        EMBEDDINGS,
        "input",
        {"input": [[5]] * 2048},
        {"input": [[5]] * 2049},
    ),
    "pooled_values": (
        EMBEDDINGS,
        "input",
        {"input": [[5]] * 8, "dimensions": 2**20},
        {"input": [[5]] * 9, "dimensions": 2**20},
    ),
    "vllm_xargs": (
        COMPLETIONS,
        "vllm_xargs",
        {"vllm_xargs": text(2**16)},
        {"vllm_xargs": text(2**16 + 1)},
    ),
    "grammar_bytes": (
        COMPLETIONS,
        "guided_regex",
        {"guided_regex": "x" * 2**17},
        {"guided_regex": "x" * (2**17 + 1)},
    ),
    "grammar_values": (
        CHAT,
        "guided_json",
        {"guided_json": {"enum": [0] * (2**14 - 2)}},
        {"guided_json": {"enum": [0] * (2**14 - 1)}},
    ),
    "grammar_depth": (
        CHAT,
        "guided_json",
        {"guided_json": nested(64)},
        {"guided_json": nested(65)},
    ),
    "grammar_choices": (
        COMPLETIONS,
        "structured_outputs",
        {"structured_outputs": {"choice": ["x"] * 4096}},
        {"structured_outputs": {"choice": ["x"] * 4097}},
    ),
    "json_values": (
        COMPLETIONS,
        None,
        {"unknown": [0] * (2**21 - 10)},
        {"unknown": [0] * (2**21 + 1)},
    ),
    "json_containers": (
        COMPLETIONS,
        None,
        {"unknown": [[0, 1]] * (2**15 - 2)},
        {"unknown": [[0, 1]] * (2**15 - 1)},
    ),
    "json_strings": (
        COMPLETIONS,
        None,
        {"unknown": ['"\\'] * (2**17 - 5)},
        {"unknown": ['"\\'] * (2**17 - 4)},
    ),
}


def test_each_limit_has_a_case() -> None:
    """A new limit needs a row above; that of stored responses has its own test."""
    assert {*CASES, "history_bytes"} == {limit.name for limit in LIMITS}


async def post(engine: FakeEngine, path: str, fields: Fields) -> tuple[int, Any]:
    engine.facts = replace(
        FACTS,
        model=replace(FACTS.model, vocab_size=VOCABULARY, max_model_len=2**22),
        sections={"pooling": EMBEDS},
    )
    engine.max_open = 2048
    body = json.dumps({**BASE[path], **fields}, separators=(",", ":")).encode()
    settings = ServerSettings(replies=ReplySettings(trust_request_chat_template=True))
    async with client_of(engine, settings) as client:
        response = await client.post(path, data=io.BytesIO(body))
        return response.status, json.loads(await response.text())


@pytest.mark.parametrize("name", CASES)
async def test_a_request_at_a_limit_is_accepted(name: str) -> None:
    """The limit itself is still allowed."""
    path, _, fields, _ = CASES[name]

    status, answer = await post(FakeEngine(), path, fields)

    assert status == 200, answer


@pytest.mark.parametrize("name", CASES)
async def test_a_request_above_a_limit_is_refused(name: str) -> None:
    """
    It is a 400 that names the field, nothing reaches the engine, and the observers get
    the limit's name.
    """
    path, param, _, fields = CASES[name]
    engine = FakeEngine()

    status, answer = await post(engine, path, fields)

    assert status == 400
    assert answer["error"]["code"] == "limit_exceeded"
    assert answer["error"]["param"] == param
    assert engine.streams == []
    assert [cause.limit for cause in engine.rejected] == [name]


async def test_log_probabilities_of_a_stream_are_not_limited_in_number() -> None:
    """They are sent as they come, and not kept."""
    fields: Fields = {"logprobs": 20, "n": 128, "max_tokens": 2**21, "stream": True}
    engine = FakeEngine()
    engine.facts = replace(FACTS, model=replace(FACTS.model, max_model_len=2**22))
    async with client_of(engine) as client:
        body = json.dumps({**BASE[COMPLETIONS], **fields}).encode()
        response = await client.post(COMPLETIONS, data=io.BytesIO(body))

        assert response.status == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 2},
        {"top_p": 1, "top_k": -1},
        {"top_k": 0, "min_p": 1.0},
        {"top_k": 10**9},
        {"presence_penalty": -2, "frequency_penalty": 2},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 5},
        {"stop": ["\n\n", "User:", "</s>", "###"], "include_stop_str_in_output": True},
        {"stop": []},
        {"stop_token_ids": []},
        {"seed": -1},
        {"seed": 2**63 - 1},
        {"logit_bias": {}},
        {"logit_bias": {"5": -100, "6": 100}},
        {"bad_words": []},
        {"n": 3, "best_of": 3},
        {"min_tokens": 0, "max_tokens": 5, "ignore_eos": True},
        {"skip_special_tokens": False},
        {"user": "u" * 5000, "metadata": {"a": "b" * 512}},
    ],
    ids=str,
)
async def test_common_parameters_of_clients_are_accepted(fields: Fields) -> None:
    """OpenAI's ranges and vLLM's are allowed."""
    status, answer = await post(FakeEngine(), COMPLETIONS, fields)

    assert status == 200, answer


async def test_biases_beyond_100_count_as_100() -> None:
    """As in vLLM; OpenAI's range is −100 to 100."""
    engine = FakeEngine()

    status, _ = await post(
        engine, COMPLETIONS, {"logit_bias": {"5": 1e9, "6": -101, "7": 3}}
    )

    assert status == 200
    assert engine.streams[0].params.logit_bias == {5: 100.0, 6: -100.0, 7: 3.0}
