"""`/v1/embeddings` and `/pooling` above a scripted engine."""

import base64
import struct
from dataclasses import replace
from typing import Any

import pytest

from hookline.pooling import PoolingParams
from hookline.request import FinishReason
from hookline.sampling_params import NO_SAMPLING
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

EMBEDS = PoolingFacts(
    kind=PoolingType.LAST, normalize=True, hidden_size=8, is_matryoshka=True
)


def embedding_engine(facts: PoolingFacts | None = EMBEDS) -> FakeEngine:
    engine = FakeEngine([""], finish_reason=FinishReason.STOP)
    engine.facts = replace(FACTS, sections={"pooling": facts} if facts else {})
    return engine


async def post(
    engine: FakeEngine, path: str = "/v1/embeddings", **fields: Any
) -> tuple[int, Any]:
    async with client_of(engine) as client:
        response = await client.post(path, json=fields)
        return response.status, await response.json()


async def test_response_has_every_field_of_the_api() -> None:
    """Each input has its vector, in order, and the usage counts all tokens."""
    engine = embedding_engine()

    status, answer = await post(engine, model="fake", input=["ab", "c"], user="me")

    assert status == 200, answer
    assert answer.pop("id").startswith("embd-")
    assert isinstance(answer.pop("created"), int)
    assert answer == {
        "object": "list",
        "model": "fake",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [2.0, 0.5]},
            {"object": "embedding", "index": 1, "embedding": [1.0, 0.5]},
        ],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    assert [each.params for each in engine.streams] == [NO_SAMPLING] * 2
    assert engine.streams[0].facts.operation == "embeddings"


@pytest.mark.parametrize(
    ("given", "prompts"),
    [
        ("ab", [[97, 98]]),
        (["a", "b"], [[97], [98]]),
        ([5, 6], [[5, 6]]),
        ([[5], [6, 7]], [[5], [6, 7]]),
    ],
    ids=str,
)
async def test_inputs_come_in_four_forms(
    given: object, prompts: list[list[int]]
) -> None:
    """A text, texts, token ids or lists of them."""
    engine = embedding_engine()

    status, _ = await post(engine, input=given)

    assert status == 200
    assert [each.prompt for each in engine.streams] == prompts


async def test_base64_has_the_bytes_of_float32() -> None:
    """This is what the client of OpenAI asks for by default."""
    _, answer = await post(embedding_engine(), input="ab", encoding_format="base64")

    data = base64.b64decode(answer["data"][0]["embedding"])
    assert struct.unpack("<2f", data) == (2.0, 0.5)


async def test_options_reach_the_engine() -> None:
    """What is asked of the pooling, and the options of all requests."""
    engine = embedding_engine()

    status, answer = await post(
        engine,
        input=[5, 6, 7],
        dimensions=3,
        normalize=False,
        truncate_prompt_tokens=2,
        cache_salt="s",
        priority=4,
    )

    assert status == 200, answer
    [stream] = engine.streams
    assert stream.pooling == PoolingParams(dimensions=3, normalize=False)
    assert (stream.prompt, stream.cache_salt) == ([6, 7], "s")
    assert stream.facts.priority == 4
    assert len(answer["data"][0]["embedding"]) == 3


async def test_pooling_gives_one_vector_or_one_per_token() -> None:
    """`/pooling` has the same body, and a task."""
    _, whole = await post(embedding_engine(), "/pooling", input=[5, 6])
    _, tokens = await post(
        embedding_engine(), "/pooling", input=[5, 6], task="token_embed"
    )

    assert whole["data"] == [{"object": "pooling", "index": 0, "data": [2.0, 0.5]}]
    assert tokens["data"][0]["data"] == [[2.0, 0.5]] * 2


async def test_a_prompt_may_fill_the_context() -> None:
    """No room is needed for tokens; one more is an error that names the field."""
    longest = FACTS.model.max_model_len
    status, _ = await post(embedding_engine(), input=[5] * (longest - 1))
    assert status == 200

    refused, answer = await post(embedding_engine(), input=[5] * (longest + 1))
    cut, _ = await post(
        embedding_engine(), input=[5] * 3 * longest, truncate_prompt_tokens=9
    )

    assert (refused, cut) == (400, 200)
    assert answer["error"]["code"] == "context_length_exceeded"
    assert answer["error"]["param"] == "input"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": ["a", [1]]}, "input"),
        ({"input": [-1]}, "input[0]"),
        ({"input": "a", "encoding_format": "bytes"}, "encoding_format"),
        ({"input": "a", "embed_dtype": "float16"}, "embed_dtype"),
        ({"input": "a", "endianness": "big"}, "endianness"),
        ({"input": "a", "dimensions": 9}, "dimensions"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"input": "a", "cache_salt": ""}, "cache_salt"),
        ({"input": "a", "normalize": True, "use_activation": False}, "normalize"),
    ],
    ids=str,
)
async def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    """It is a 400, counted once, and nothing reaches the engine."""
    engine = embedding_engine()

    status, answer = await post(engine, **fields)

    assert status == 400
    assert answer["error"]["param"] == param
    assert engine.streams == []
    assert len(engine.rejected) == 1


async def test_unknown_task_is_refused() -> None:
    """A classifier's tasks are not served."""
    status, answer = await post(
        embedding_engine(), "/pooling", input="a", task="classify"
    )

    assert (status, answer["error"]["param"]) == (400, "task")


async def test_fewer_dimensions_need_a_model_that_can_be_cut() -> None:
    """The error names the option that says so."""
    engine = embedding_engine(replace(EMBEDS, is_matryoshka=False))
    status, answer = await post(engine, input="a", dimensions=4)
    assert status == 400
    assert "is_matryoshka" in answer["error"]["message"]

    engine = embedding_engine(replace(EMBEDS, matryoshka_dimensions=(2, 4)))
    assert (await post(engine, input="a", dimensions=3))[0] == 400
    assert (await post(engine, input="a", dimensions=4))[0] == 200


async def test_a_server_that_does_not_embed_names_the_option() -> None:
    """It is one clear 400."""
    status, answer = await post(embedding_engine(None), input="a")

    assert status == 400
    assert "--convert embed" in answer["error"]["message"]


async def test_an_aborted_request_is_an_error() -> None:
    """A response never lacks vectors."""
    engine = embedding_engine()
    engine.finish_reason = FinishReason.ABORT

    status, answer = await post(engine, input="a")

    assert (status, answer["error"]["code"]) == (503, "aborted")


async def test_another_model_is_not_found() -> None:
    """It is a 404 with OpenAI's code."""
    status, answer = await post(embedding_engine(), input="a", model="other")

    assert (status, answer["error"]["code"]) == (404, "model_not_found")


async def test_special_tokens_can_be_left_out() -> None:
    """The text is then all that is embedded."""
    engine = embedding_engine()

    await post(engine, input="a", add_special_tokens=False)

    assert engine.streams[0].prompt == [97]
