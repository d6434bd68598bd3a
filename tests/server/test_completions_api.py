"""`/v1/completions` above a scripted engine."""

from typing import Any

import pytest

from hookline_testing.scripted_server import FakeEngine, client_of


async def complete(engine: FakeEngine, **fields: object) -> Any:
    body = {"model": "fake", "prompt": "ab", **fields}
    async with client_of(engine) as client:
        response = await client.post("/v1/completions", json=body)
        assert response.status == 200, await response.text()
        return await response.json()


async def test_completion_has_every_field_of_the_api() -> None:
    """
    A whole completion carries the fields that OpenAI's schema requires.
    """
    engine = FakeEngine(["Hell", "o"])
    engine.cached_tokens = 1

    answer = await complete(engine)

    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    assert answer["model"] == "fake"
    assert isinstance(answer["created"], int)
    assert answer["choices"] == [
        {
            "index": 0,
            "text": "Hello",
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
        }
    ]
    assert answer["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 5,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


async def test_usage_does_not_count_drafts() -> None:
    """
    OpenAI's fields for predictions are those of a request's `prediction`, for whose
    tokens the client pays; drafts are the engine's own affair.
    """
    engine = FakeEngine()
    engine.draft_tokens, engine.accepted_tokens = 9, 4

    answer = await complete(engine, n=2)

    assert answer["usage"]["completion_tokens"] == 10
    assert "completion_tokens_details" not in answer["usage"]


async def test_request_can_disable_speculation() -> None:
    """
    The field `speculation` reaches the engine; by default it is true.
    """
    engine = FakeEngine()

    await complete(engine)
    await complete(engine, speculation=False)

    assert [stream.params.speculation for stream in engine.streams] == [True, False]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("ab", [[97, 98]]),
        (["ab", "c"], [[97, 98], [99]]),
        ([97, 98], [[97, 98]]),
        ([[97, 98], [99]], [[97, 98], [99]]),
    ],
    ids=["text", "texts", "tokens", "lists of tokens"],
)
async def test_prompt_comes_in_four_shapes(
    prompt: object, expected: list[list[int]]
) -> None:
    """
    Each of the API's shapes of a prompt reaches the engine as prompts.
    """
    engine = FakeEngine()

    answer = await complete(engine, prompt=prompt)

    assert [stream.prompt for stream in engine.streams] == expected
    assert [choice["index"] for choice in answer["choices"]] == [*range(len(expected))]


async def test_choices_of_all_prompts_are_counted_through() -> None:
    """
    With two prompts and n of two, choices have the indexes 0 to 3 and a prompt's tokens
    count once.
    """
    answer = await complete(FakeEngine(["xy"]), prompt=["ab", "c"], n=2)

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 8


async def test_fields_reach_the_engine() -> None:
    """
    Sampling fields mean the same in the engine's parameters; null means default, and
    fields that nobody knows are ignored.
    """
    engine = FakeEngine()

    await complete(
        engine,
        temperature=0.5,
        top_p=0.9,
        top_k=-1,
        min_p=None,
        stop=None,
        seed=7,
        logit_bias={"65": 2},
        ignore_eos=True,
        stop_token_ids=[5],
        cache_salt="s",
        priority=3,
        unheard_of={"a": 1},
    )

    stream = engine.streams[0]
    assert stream.params.temperature == 0.5
    assert stream.params.top_p == 0.9
    assert stream.params.top_k is None
    assert stream.params.stop == ()
    assert stream.params.seed == 7
    assert stream.params.logit_bias == {65: 2.0}
    assert stream.params.ignore_eos
    assert stream.params.stop_token_ids == (5,)
    assert stream.params.max_tokens == 16
    assert stream.cache_salt == "s"
    assert stream.facts.priority == 3
    assert not stream.is_streamed


@pytest.mark.parametrize(
    ("stop", "expected"), [("a", ("a",)), (["a", "b"], ("a", "b")), ([], ())]
)
async def test_stop_is_a_string_or_a_list(
    stop: object, expected: tuple[str, ...]
) -> None:
    """
    One stop string means a list of one.
    """
    engine = FakeEngine()

    await complete(engine, stop=stop)

    assert engine.streams[0].params.stop == expected


async def test_echo_repeats_the_prompt() -> None:
    """
    Echo puts the prompt, also one of tokens, before the completion.
    """
    answer = await complete(FakeEngine(["!"]), prompt=[[97, 98], [99]], echo=True)

    assert [choice["text"] for choice in answer["choices"]] == ["ab!", "c!"]


async def test_logprobs_are_parallel_lists() -> None:
    """
    Log-probabilities of echo and completion form four lists of equal length, whose
    offsets count through the text; the prompt's first token has none.
    """
    answer = await complete(FakeEngine(["x"]), prompt=[97, 98], echo=True, logprobs=2)

    assert answer["choices"][0]["logprobs"] == {
        "tokens": ["a", "b", "x"],
        "token_logprobs": [None, -0.25, -0.25],
        "top_logprobs": [None, {"b": -0.25, "c": -0.5}, {"x": -0.25, "y": -0.5}],
        "text_offset": [0, 1, 2],
    }


async def test_echo_alone_scores_the_prompt() -> None:
    """
    With echo, max_tokens may be 0: the answer is the prompt and its log-probabilities.
    """
    answer = await complete(
        FakeEngine(["x"]), prompt=[97, 98], echo=True, logprobs=1, max_tokens=0
    )

    (choice,) = answer["choices"]
    assert choice["text"] == "ab"
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"]["tokens"] == ["a", "b"]
    assert answer["usage"]["completion_tokens"] == 0


async def test_prompt_is_truncated_and_stripped_of_special_tokens_on_request() -> None:
    """
    `truncate_prompt_tokens` keeps the prompt's end, `add_special_tokens` may be off.
    """
    engine = FakeEngine()

    await complete(
        engine, prompt="abcd", truncate_prompt_tokens=2, add_special_tokens=False
    )

    assert engine.streams[0].prompt == [99, 100]


async def test_default_length_ends_where_the_context_does() -> None:
    """
    A client that names no length is served near the context's end all the same.
    """
    engine = FakeEngine(["x"])

    await complete(engine, prompt="a" * 60)

    assert engine.streams[0].params.max_tokens == 4


async def test_prompts_of_a_request_share_the_tokens_of_its_bad_words() -> None:
    """They are tokenized once, and a prompt of token ids by itself not at all."""
    engine = FakeEngine()

    await complete(engine, prompt=[[97], [98]], bad_words=["x"])
    await complete(engine, prompt=[97])

    words = [stream.request.bad_words_token_ids for stream in engine.streams]
    assert words == [((120,),), ((120,),), ()]
    assert len(engine.clients) == 1
