"""Every error has OpenAI's shape, the right status, and names the field."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hookline.exceptions import ChatTemplateError, RequestError
from hookline.finish_cause import Rejected
from hookline.frozen import EMPTY
from hookline_processes.fair_queue import NOBODY, Client
from hookline_server.api_error import ApiError, error_body
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

COMPLETION = "/v1/completions"
CHAT = "/v1/chat/completions"
HELLO: list[object] = [{"role": "user", "content": "Hi"}]


async def refused(
    path: str, body: bytes, *, status: int, engine: FakeEngine | None = None
) -> Any:
    async with client_of(engine or FakeEngine()) as client:
        response = await client.post(path, data=body)
        assert response.status == status, await response.text()
        assert response.content_type == "application/json"
        answer = await response.json()
    assert set(answer) == {"error"}
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    return answer["error"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": "x"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -5}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": 1000000}, "n"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop[1]"),
        ({"stop": ""}, "stop"),
        ({"stop": ["x"] * 100}, "stop"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"seed": 2**64}, "seed"),
        ({"priority": 2**70}, "priority"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"cache_salt": "x" * 1000}, "cache_salt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt"),
        ({"prompt": ["a", [5]]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ["a"] * 2000}, "prompt"),
        ({"n": 128, "prompt": ["a"] * 10}, "prompt"),
        ({"prompt": [1, 2**62], "echo": True}, "prompt[1]"),
        ({"prompt": [-1], "echo": True}, "prompt[0]"),
        ({"prompt": "x" * 64}, "prompt"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"suffix": "z"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"guided_regex": ""}, "guided_regex"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_wrong_field_of_a_completion_is_named(
    fields: dict[str, object], param: str
) -> None:
    """
    A completion with one wrong field is a 400 that names the field, and is counted.
    """
    body = {"model": "fake", "prompt": "ab", **fields}
    engine = FakeEngine()

    error = await refused(
        COMPLETION, json.dumps(body).encode(), status=400, engine=engine
    )

    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert len(engine.rejected) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "x", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
            "messages[0].tool_calls[0].function",
        ),
        ({"messages": [{"role": "user", "content": "x" * 64}]}, "messages"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_completion_tokens": 64}, "max_completion_tokens"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 5}, "logprobs"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema",
        ),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"chat_template": "{{ x }}"}, "chat_template"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_wrong_field_of_a_chat_is_named(
    fields: dict[str, object], param: str
) -> None:
    """
    A chat with one wrong field is a 400 that names the field as clients spell it.
    """
    body = {"model": "fake", "messages": HELLO, **fields}
    engine = FakeEngine()

    error = await refused(CHAT, json.dumps(body).encode(), status=400, engine=engine)

    assert error["param"] == param
    assert len(engine.rejected) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\x00\xff\xfe",
        b'{"model": "\xff"}',
        b'{"model": "fake", "prompt": NaN}',
        b'{"model": "fake", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model": "fake", "prompt": "\\ud800"}',
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_junk_is_a_clear_400(body: bytes) -> None:
    """
    A body that is no JSON object is refused, and nothing breaks.
    """
    error = await refused(COMPLETION, body, status=400)

    assert "body" in error["message"]


async def test_missing_prompt_is_named() -> None:
    """
    A missing field is called missing.
    """
    error = await refused(COMPLETION, b'{"model": "fake"}', status=400)

    assert (error["message"], error["param"]) == ("prompt is missing", "prompt")


@pytest.mark.parametrize("path", [COMPLETION, CHAT])
async def test_unknown_model_is_not_found(path: str) -> None:
    """
    Another model's name is a 404 that names the served model.
    """
    body = {"model": "other", "prompt": "x", "messages": HELLO}

    error = await refused(path, json.dumps(body).encode(), status=404)

    assert error["code"] == "model_not_found"
    assert "'fake'" in error["message"]


async def test_an_error_repeats_only_the_beginning_of_a_long_text() -> None:
    """
    The message shows the first 256 characters of an unknown model's name.
    """
    engine = FakeEngine()
    body = {"model": "x" * 5000, "prompt": "x"}

    error = await refused(
        COMPLETION, json.dumps(body).encode(), status=404, engine=engine
    )

    [rejected] = engine.rejected
    assert "x" * 256 in error["message"]
    assert len(error["message"]) < 400
    assert rejected == Rejected("model_not_found", error["message"])


@pytest.mark.parametrize("length", [0, 985])
async def test_observers_get_no_key_that_a_message_repeats(length: int) -> None:
    """
    The client's message is whole; what observers get has no key, not even half of one.
    """
    error = ApiError(400, "x" * length + " sk-0123456789abcdef", code="invalid_request")

    told = error.rejection.message

    assert "sk-0123456789abcdef" in error_body(error).decode()
    assert "0123" not in told
    assert len(told) <= 1000


class StrictEngine(FakeEngine):
    """Its chat template refuses whatever it gets, and quotes it."""

    async def render_chat(
        self,
        messages: list[dict[str, object]],
        *,
        variables: Mapping[str, object] = EMPTY,  # noqa: ARG002
        add_generation_prompt: bool = True,  # noqa: ARG002
        continue_final_message: bool = False,  # noqa: ARG002
        chat_template: str | None = None,  # noqa: ARG002
        is_prompt: bool = True,  # noqa: ARG002
        client: Client = NOBODY,  # noqa: ARG002
    ) -> list[int]:
        raise ChatTemplateError(f"cannot say {messages[0]['content']}")


async def test_observers_get_no_message_that_a_template_quotes() -> None:
    """
    The client gets the chat template's own words; observers get only what was wrong.
    """
    engine = StrictEngine()
    body = {"model": "fake", "messages": [{"role": "user", "content": "my diary"}]}

    error = await refused(CHAT, json.dumps(body).encode(), status=400, engine=engine)

    assert error["message"].endswith("cannot say my diary")
    assert engine.rejected == [
        Rejected("invalid_request", "the chat template rejects the messages")
    ]


async def test_too_long_prompt_names_both_lengths() -> None:
    """
    The error has the prompt's length and the context length.
    """
    body = {"model": "fake", "prompt": "x" * 100, "max_tokens": 1}

    error = await refused(COMPLETION, json.dumps(body).encode(), status=400)

    assert error["code"] == "context_length_exceeded"
    assert "100" in error["message"]
    assert "64" in error["message"]


async def test_second_prompt_refused_aborts_the_first() -> None:
    """
    Either all prompts of a request run or none.
    """
    engine = FakeEngine()
    body = {"model": "fake", "prompt": ["ab", "x" * 100]}

    await refused(COMPLETION, json.dumps(body).encode(), status=400, engine=engine)

    assert [stream.cause for stream in engine.streams] == ["sibling_refused"]
    [rejected] = engine.rejected
    assert rejected.kind == "context_length_exceeded"


@pytest.mark.parametrize(("prompts", "n"), [(5, 1), (1, 5), (2, 3)])
async def test_prompts_without_room_are_refused_before_the_first(
    prompts: int, n: int
) -> None:
    """
    A request whose completions do not all fit is refused once, and none is submitted.
    """
    engine = FakeEngine()
    engine.max_open = 4
    body = {"model": "fake", "prompt": ["a"] * prompts, "n": n}

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json=body)
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (429, "overloaded")
    assert response.headers["Retry-After"] == "1"
    assert not engine.streams
    assert engine.rejected == [Rejected("overloaded", error["message"])]


async def test_observers_hear_what_the_client_of_a_chat_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    What the engine refuses has the endpoint's names of fields for both.
    """

    def refuse(*_: object, **__: object) -> None:
        raise RequestError("max_tokens must be small", param="max_tokens")

    engine = FakeEngine()
    monkeypatch.setattr(engine, "add", refuse)
    body = {"messages": HELLO, "max_completion_tokens": 5}

    error = await refused(CHAT, json.dumps(body).encode(), status=400, engine=engine)

    assert error["message"] == "max_completion_tokens must be small"
    assert engine.rejected == [Rejected("invalid_request", error["message"])]


async def test_requests_after_the_engines_death_are_reported() -> None:
    """
    Each is a rejection with what the client was told.
    """
    engine = FakeEngine()
    engine.fail("killed by signal 9")
    body = {"model": "fake", "prompt": ["a", "b"]}

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json=body)
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (503, "engine_unavailable")
    assert engine.rejected == [Rejected("engine_unavailable", error["message"])]


async def test_prompts_with_just_enough_room_are_served() -> None:
    """
    The last of the open completions that are allowed is allowed.
    """
    engine = FakeEngine()
    engine.max_open = 4
    body = {"model": "fake", "prompt": ["a", "b"], "n": 2}

    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json=body)

    assert response.status == 200
    assert not engine.rejected


async def test_dead_engine_is_503() -> None:
    """
    With a dead engine every request is refused with the reason.
    """
    engine = FakeEngine()
    engine.fail("CUDA error")

    error = await refused(COMPLETION, b"{}", status=503, engine=engine)

    assert "CUDA error" in error["message"]
    assert error["type"] == "service_unavailable_error"


async def test_unknown_route_and_wrong_method_are_in_shape() -> None:
    """
    What aiohttp answers by itself is in shape as well, and keeps its headers.
    """
    async with client_of(FakeEngine()) as client:
        missing = await client.get("/v2/nothing")
        wrong = await client.get(COMPLETION)

        assert (missing.status, wrong.status) == (404, 405)
        assert wrong.headers["Allow"] == "POST"
        assert (await missing.json())["error"]["code"] == "route_not_found"
        assert (await wrong.json())["error"]["code"] == "method_not_allowed"


async def test_large_body_is_413() -> None:
    """
    A body above the limit is refused with the limit, and counted.
    """
    engine = FakeEngine()
    settings = ServerSettings(max_body_bytes=1000)

    async with client_of(engine, settings) as client:
        response = await client.post(COMPLETION, data=b"x" * 1001)
        error = (await response.json())["error"]

    assert response.status == 413
    assert "1000" in error["message"]
    assert engine.rejected == [Rejected("body_too_large", error["message"])]


async def test_unforeseen_exception_is_a_500_in_shape(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A bug in the server is a 500 without its traceback, which stands in the log.
    """
    engine = FakeEngine()
    engine.script = ()
    engine.facts = None  # type: ignore[assignment]

    error = await refused(
        COMPLETION, b'{"model": "x", "prompt": "x"}', status=500, engine=engine
    )

    assert error["code"] == "internal_error"
    assert "Traceback" in caplog.text
