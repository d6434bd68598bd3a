"""How much of a prompt is used, and what a response says of its tokens."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
INPUTS: dict[str, dict[str, object]] = {
    COMPLETIONS: {"prompt": "abc"},
    CHAT: {"messages": [{"role": "user", "content": "b"}]},  # rendered: b, \n, >
}


async def post(
    path: str, *, engine: FakeEngine | None = None, status: int = 200, **fields: object
) -> Any:
    body = {**INPUTS[path], **fields}
    async with client_of(engine or FakeEngine(["x", "y"])) as client:
        response = await client.post(path, json=body)
        assert response.status == status, await response.text()
        if not fields.get("stream"):
            return await response.json()
        lines = (await response.text()).split("\n\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
async def test_a_missing_model_means_the_served_one(path: str) -> None:
    """As in vLLM; the response names it."""
    assert (await post(path))["model"] == "fake"


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize("stream", [False, True])
async def test_responses_have_the_fingerprint_of_the_configuration(
    path: str, *, stream: bool
) -> None:
    """Each response and each chunk has it."""
    engine = FakeEngine()
    engine.facts = replace(FACTS, config_hash="abc123")

    answer = await post(path, engine=engine, stream=stream)

    messages = answer if stream else [answer]
    assert {each["system_fingerprint"] for each in messages} == {"fp_abc123"}


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
async def test_beam_search_is_refused(path: str) -> None:
    """Two equal choices would be wrong; false asks for nothing."""
    error = (await post(path, use_beam_search=True, n=2, status=400))["error"]

    assert error["param"] == "use_beam_search"
    assert "beam search is not supported" in error["message"]
    await post(path, use_beam_search=False)


async def test_the_role_chunk_counts_no_token() -> None:
    """With continuous usage the role costs nothing, also of a later choice."""
    options = {"include_usage": True, "continuous_usage_stats": True}

    chunks = await post(CHAT, stream=True, stream_options=options, n=2)

    counts = [
        (chunk["choices"][0]["delta"].get("role"), chunk["usage"]["completion_tokens"])
        for chunk in chunks
        if chunk["choices"]
    ]
    assert counts[0] == ("assistant", 0)
    assert chunks[0]["usage"]["total_tokens"] == 3
    assert chunks[-1]["usage"]["completion_tokens"] == 4


async def test_token_ids_of_a_chat() -> None:
    """The prompt's once, and each choice's own."""
    answer = await post(CHAT, return_token_ids=True, n=2)

    assert answer["prompt_token_ids"] == [98, 10, 62]
    assert [each["token_ids"] for each in answer["choices"]] == [[120, 121]] * 2


async def test_token_ids_of_a_streamed_chat() -> None:
    """The first chunk has the prompt's; those with text have theirs."""
    chunks = await post(CHAT, return_token_ids=True, stream=True)

    assert [each.get("prompt_token_ids") for each in chunks] == [
        [98, 10, 62],
        *[None] * (len(chunks) - 1),
    ]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [each["token_ids"] for each in choices if "token_ids" in each] == [
        [120],
        [121],
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_token_ids_of_completions(*, stream: bool) -> None:
    """Each choice has its prompt's and its own; streamed, the prompt's come once."""
    answer = await post(
        COMPLETIONS, prompt=["ab", "c"], return_token_ids=True, stream=stream
    )

    chunks = answer if stream else [answer]
    found: dict[int, list[list[int]]] = {0: [[], []], 1: [[], []]}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        found[choice["index"]][0] += choice.get("prompt_token_ids", [])
        found[choice["index"]][1] += choice["token_ids"]
    assert found == {0: [[97, 98], [120, 121]], 1: [[99], [120, 121]]}


async def test_nothing_is_said_of_tokens_unasked() -> None:
    """Responses without these options have none of their fields."""
    for path in (COMPLETIONS, CHAT):
        answer = await post(path)
        names = {*answer, *answer["choices"][0]}
        assert not names & {"prompt_token_ids", "token_ids", "prompt_logprobs"}


async def test_tokens_are_named_by_their_ids() -> None:
    """Texts of tokens need not be unique; offsets and bytes still are the text's."""
    chat = await post(
        CHAT, logprobs=True, top_logprobs=1, return_tokens_as_token_ids=True
    )
    plain = await post(COMPLETIONS, logprobs=1, return_tokens_as_token_ids=True)

    first = chat["choices"][0]["logprobs"]["content"][0]
    assert (first["token"], first["bytes"]) == ("token_id:120", [120])
    assert [each["token"] for each in first["top_logprobs"]] == ["token_id:120"]
    logprobs = plain["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:120", "token_id:121"]
    assert [*logprobs["top_logprobs"][0]] == ["token_id:120"]
    assert logprobs["text_offset"] == [0, 1]


async def test_prompt_logprobs_of_a_chat() -> None:
    """One object per prompt token, keyed by token ids; the first is null."""
    answer = await post(CHAT, prompt_logprobs=2)

    assert answer["prompt_logprobs"] == [
        None,
        {
            "10": {"logprob": -0.25, "rank": 1, "decoded_token": "\n"},
            "11": {"logprob": -0.5, "rank": 2, "decoded_token": "\x0b"},
        },
        {
            "62": {"logprob": -0.25, "rank": 1, "decoded_token": ">"},
            "63": {"logprob": -0.5, "rank": 2, "decoded_token": "?"},
        },
    ]


async def test_prompt_logprobs_of_completions() -> None:
    """Each choice has its prompt's, beside an echo with another number of them."""
    answer = await post(
        COMPLETIONS,
        prompt=[[97, 98], [99]],
        prompt_logprobs=2,
        echo=True,
        logprobs=1,
    )

    first, second = answer["choices"]
    assert [*first["prompt_logprobs"][1]] == ["98", "99"]
    assert second["prompt_logprobs"] == [None]
    assert first["logprobs"]["top_logprobs"][:2] == [None, {"b": -0.25}]
    assert first["text"] == "abxy"


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_logprobs": -1},
        {"prompt_logprobs": 21},
        {"prompt_logprobs": 1, "stream": True},
        {"truncate_prompt_tokens": 0},
        {"truncate_prompt_tokens": -2},
    ],
    ids=str,
)
async def test_wrong_prompt_options_are_refused(
    path: str, fields: dict[str, object]
) -> None:
    """The error names the field, and nothing reaches the engine."""
    engine = FakeEngine()

    async with client_of(engine) as client:
        response = await client.post(path, json={**INPUTS[path], **fields})
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, next(iter(fields)))
    assert engine.streams == []


async def test_log_probabilities_of_prompts_are_limited_in_number() -> None:
    """The response repeats them for each choice; above the limit it is a 400."""
    engine = FakeEngine()
    engine.facts = replace(FACTS, model=replace(FACTS.model, max_model_len=2**20))
    engine.max_open = 1024
    prompt = [97] * 1561  # × 128 choices × 21

    error = (
        await post(
            COMPLETIONS,
            engine=engine,
            prompt=prompt,
            n=128,
            prompt_logprobs=20,
            status=400,
        )
    )["error"]

    assert (error["code"], error["param"]) == ("limit_exceeded", "prompt_logprobs")
    assert engine.streams == []


@pytest.mark.parametrize(
    ("path", "most", "kept"),
    [
        (COMPLETIONS, 2, "bc"),
        (COMPLETIONS, 9, "\x01abc"),
        (CHAT, 2, "\n>"),
        (CHAT, 3, "b\n>"),
    ],
)
async def test_the_end_of_a_prompt_is_kept(path: str, most: int, kept: str) -> None:
    """A prompt has at most as many tokens as `truncate_prompt_tokens`."""
    engine = FakeEngine()

    await post(path, engine=engine, truncate_prompt_tokens=most)

    assert "".join(map(chr, engine.streams[0].prompt)) == kept


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
async def test_as_much_of_a_prompt_is_kept_as_fits(path: str) -> None:
    """With -1 the prompt leaves room for the tokens to generate."""
    engine = FakeEngine()
    said: Any = {
        COMPLETIONS: {"prompt": "a" * 100},
        CHAT: {"messages": [{"role": "user", "content": "a" * 100}]},
    }[path]

    await post(path, engine=engine, truncate_prompt_tokens=-1, max_tokens=10, **said)

    assert len(engine.streams[0].prompt) == 64 - 10


async def test_token_ids_are_kept_to_the_end_too() -> None:
    """Also of several prompts, and longer than the context."""
    engine = FakeEngine()
    prompts = [[*range(97, 97 + 90)], [97, 98]]

    await post(COMPLETIONS, engine=engine, prompt=prompts, truncate_prompt_tokens=-1)

    assert [each.prompt for each in engine.streams] == [prompts[0][-48:], [97, 98]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("role", "expected"), [("assistant", "Once upon\na time.xy"), ("user", "xy")]
)
async def test_a_chat_echoes_what_it_continues(
    role: str, expected: str, *, stream: bool
) -> None:
    """The assistant's last message comes before its reply; others' do not."""
    parts = [{"type": "text", "text": text} for text in ("Once upon", "a time.")]
    messages = [{"role": role, "content": parts}]

    answer = await post(
        CHAT,
        messages=messages,
        echo=True,
        add_generation_prompt=False,
        stream=stream,
    )

    if stream:
        deltas = [each["choices"][0]["delta"] for each in answer]
        text = "".join(delta.get("content", "") for delta in deltas)
    else:
        text = answer["choices"][0]["message"]["content"]
    assert text == expected
