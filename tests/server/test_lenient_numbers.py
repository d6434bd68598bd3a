"""Numbers and booleans that clients send as strings."""

import json
from typing import Any

import pytest

from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.completion import CompletionRequest
from hookline_server.protocol.lenient import with_numbers
from hookline_testing.scripted_server import FakeEngine, client_of


async def post(engine: FakeEngine, status: int = 200, **fields: object) -> Any:
    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json={"prompt": "a", **fields})
        assert response.status == status, await response.text()
        return await response.json() if not engine.streams else None


async def test_strings_become_the_numbers_that_fields_expect() -> None:
    """Integers, numbers and booleans, in lists and objects, too."""
    engine = FakeEngine(["x"])

    await post(
        engine,
        max_tokens="5",
        temperature="0.5",
        min_p=" 5e-1 ",
        seed="9007199254740993",
        ignore_eos="true",
        skip_special_tokens="False",
        stop_token_ids=["7", 8],
        logit_bias={"65": "-1.5"},
        stream="yes",
        stream_options={"include_usage": "1"},
        n="1.0",
    )

    stream = engine.streams[0]
    params = stream.params
    assert (params.max_tokens, params.temperature, params.min_p) == (5, 0.5, 0.5)
    assert params.seed == 2**53 + 1
    assert params.ignore_eos
    assert not params.skip_special_tokens
    assert params.stop_token_ids == (7, 8)
    assert params.logit_bias == {65: -1.5}
    assert stream.is_streamed


async def test_strings_stay_where_they_may_be_meant() -> None:
    """Where a string is allowed, "5" is that string, also beside others' numbers."""
    engine = FakeEngine(["x"])

    await post(
        engine,
        prompt=["5", "6"],
        stop="7",
        cache_salt="8",
        vllm_xargs={"a": "9"},
        max_tokens="3",
    )

    first = engine.streams[0]
    assert [each.prompt[-1:] for each in engine.streams] == [[ord("5")], [ord("6")]]
    assert first.params.stop == ("7",)
    assert first.cache_salt == "8"
    assert first.params.extra_args == {"a": "9"}
    assert first.params.max_tokens == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": "five"},
        {"max_tokens": "5.5"},
        {"max_tokens": ""},
        {"max_tokens": "0x5"},
        {"max_tokens": "5_0"},
        {"max_tokens": "٥"},
        {"max_tokens": "9" * 40},
        {"max_tokens": "9" * 20},
        {"max_tokens": "1e300"},
        {"max_tokens": True},
        {"max_tokens": ["5"]},
        {"temperature": "nan"},
        {"temperature": "inf"},
        {"temperature": "1e999"},
        {"stream": "maybe"},
        {"logit_bias": ["5"]},
        {"stop_token_ids": "5"},
    ],
    ids=str,
)
async def test_other_strings_are_refused(fields: dict[str, object]) -> None:
    """The error names the field, also beside one that is converted."""
    engine = FakeEngine()

    answer = await post(engine, 400, seed="5", **fields)

    assert answer["error"]["param"] == next(iter(fields))
    assert engine.streams == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"n": ' + b"[" * 100_000,
        b'{"n": "\xff"}',
        b'{"n": 1, "messages": []}',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_nothing_to_convert(body: bytes) -> None:
    """Junk is left to the decoder, whose error says what is wrong."""
    assert with_numbers(body, CompletionRequest) is None


def test_only_what_expects_numbers_is_changed() -> None:
    """Everything else of a body stays byte for byte, unknown fields too."""
    kept = b'{"messages": [{"content":"5"}],"max_tokens":%s,"tools":["5"],"x":"5"}'

    converted = with_numbers(kept % b'"5"', ChatRequest)

    assert converted is not None
    assert json.loads(converted) == json.loads(kept % b"5")
