"""Bad requests: one clear error each, and nothing else is disturbed."""

from collections.abc import Iterator, Mapping

import pytest

from hookline import LLM, RequestError, RequestFacts, SamplingParams
from hookline.exceptions import PromptTooLongError
from hookline_testing.oracle import Oracle

NAN, INFINITY = float("nan"), float("inf")

BAD_VALUES = [
    ("n", 0),
    ("n", -1),
    ("n", 129),
    ("n", 10**30),
    ("max_tokens", 0),
    ("max_tokens", -5),
    ("max_tokens", 2**63),
    ("min_tokens", -1),
    ("temperature", -0.1),
    ("temperature", NAN),
    ("temperature", INFINITY),
    ("temperature", -INFINITY),
    ("temperature", 10**400),
    ("temperature", "hot"),
    ("temperature", True),
    ("top_k", 0),
    ("top_k", -1),
    ("top_k", 10**30),
    ("top_p", 0.0),
    ("top_p", -0.5),
    ("top_p", 1.01),
    ("top_p", NAN),
    ("min_p", -0.1),
    ("min_p", 1.5),
    ("min_p", NAN),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", -1.0),
    ("repetition_penalty", INFINITY),
    ("presence_penalty", 2.1),
    ("presence_penalty", -2.1),
    ("presence_penalty", NAN),
    ("frequency_penalty", 3.0),
    ("frequency_penalty", -INFINITY),
    ("logit_bias", {3: 101.0}),
    ("logit_bias", {3: -100.5}),
    ("logit_bias", {3: NAN}),
    ("allowed_token_ids", ()),
    ("stop", ("",)),
    ("stop", tuple("abcdefghijklmnopq")),
    ("bad_words", ("a", "")),
    ("logprobs", -1),
    ("logprobs", 21),
    ("prompt_logprobs", -1),
    ("prompt_logprobs", 10**9),
    ("seed", 2**63),
    ("seed", -(2**63) - 1),
]

MALFORMED: list[Mapping[str, object]] = [
    {"n": 1.5},
    {"max_tokens": 2.5},
    {"stop": "END"},
    {"stop": (1, 2)},
    {"stop": ("\ud800",)},
    {"logit_bias": {"5": 1.0}},
    {"allowed_token_ids": ("a",)},
    {"ignore_eos": "yes"},
    {"seed": 0.5},
]

UNKNOWN_TOKENS = [
    ("prompt", [1, 320], {}),
    ("prompt", [-1], {}),
    ("prompt", [10**30], {}),
    ("logit_bias", [1], {"logit_bias": {320: 1.0}}),
    ("logit_bias", [1], {"logit_bias": {-1: 1.0}}),
    ("allowed_token_ids", [1], {"allowed_token_ids": (3, 9999)}),
    ("stop_token_ids", [1], {"stop_token_ids": (-7,)}),
]


@pytest.fixture(autouse=True)
def undisturbed(llm: LLM, llama: Oracle) -> Iterator[None]:
    """The engine serves a request after each refusal as if nothing had been."""
    before = llm.front_end.engines[0].stats.totals.received

    yield

    [output] = llm.generate([5, 4, 3], SamplingParams(temperature=0.0, max_tokens=3))
    assert output.outputs[0].token_ids == llama.greedy([5, 4, 3], 3)
    assert llm.front_end.engines[0].stats.totals.received == before + 1


def make(**values: object) -> SamplingParams:
    return SamplingParams(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES, ids=str)
def test_a_bad_value_names_its_parameter(name: str, value: object) -> None:
    """Parameters cannot even be made of it."""
    with pytest.raises(RequestError, match=name) as caught:
        make(**{name: value})

    assert caught.value.param == name


def test_min_tokens_may_not_exceed_max_tokens() -> None:
    """The two contradict each other."""
    with pytest.raises(RequestError, match="min_tokens must be at most 3"):
        SamplingParams(min_tokens=4, max_tokens=3)


@pytest.mark.parametrize("values", MALFORMED, ids=str)
def test_values_of_wrong_types_are_refused(
    llm: LLM, values: Mapping[str, object]
) -> None:
    """They never reach an engine, which could only fail of them."""
    with pytest.raises(RequestError):
        llm.generate([1, 2], make(**values))


@pytest.mark.parametrize(("param", "prompt", "values"), UNKNOWN_TOKENS, ids=str)
def test_unknown_token_ids_are_named(
    llm: LLM, param: str, prompt: list[int], values: dict[str, object]
) -> None:
    """The error names position, token id and vocabulary size."""
    with pytest.raises(RequestError, match="valid ids are 0 to 319") as caught:
        llm.generate(prompt, make(**values))

    assert caught.value.param == param


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(llm: LLM, prompt: str | list[int]) -> None:
    """There is nothing to complete, also as the second of two."""
    with pytest.raises(RequestError, match="the prompt is empty"):
        llm.generate(["fine", prompt])


@pytest.mark.parametrize("prompt", [[1.5], ["a"], [None], "\ud800"])
def test_a_prompt_of_something_else_is_refused(llm: LLM, prompt: object) -> None:
    """Floats, texts within a list, and text that no encoding has."""
    with pytest.raises(RequestError, match="neither text nor a list of token ids"):
        llm.generate([prompt])  # type: ignore[arg-type]


def test_an_over_long_prompt_names_both_lengths(llm: LLM) -> None:
    """The prompt's and the model's."""
    with pytest.raises(
        PromptTooLongError, match=r"length is 256 tokens.*has 300 tokens"
    ) as caught:
        llm.generate([[1], [1] * 300])

    assert (caught.value.prompt_tokens, caught.value.max_model_len) == (300, 256)


def test_a_prompt_must_leave_room_for_a_token(llm: LLM) -> None:
    """256 tokens fill the context."""
    with pytest.raises(PromptTooLongError, match="at least one token"):
        llm.generate([1] * 256)


@pytest.mark.parametrize(
    "values", [{"max_tokens": 57}, {"min_tokens": 57, "max_tokens": None}]
)
def test_prompt_and_output_must_fit_together(
    llm: LLM, values: dict[str, object]
) -> None:
    """What is asked for is named with both lengths."""
    with pytest.raises(
        PromptTooLongError, match=r"256 tokens.*200 in the prompt, 57 in the"
    ):
        llm.generate([1] * 200, make(**values))


@pytest.mark.parametrize("what", ["sampling_params", "facts"])
def test_lists_must_be_as_long_as_the_prompts(llm: LLM, what: str) -> None:
    """Two sets of parameters, or of facts, for three prompts are a mistake."""
    params = [SamplingParams()] * (2 if what == "sampling_params" else 3)
    facts = [RequestFacts()] * (2 if what == "facts" else 3)

    with pytest.raises(
        RequestError, match=f"{what} has 2 entries, but there are 3 prompts"
    ):
        llm.generate([[1], [2], [3]], params, facts=facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"priority": 2**64},
        {"priority": "high"},
        {"tenant": 5},
        {"client_id": "\ud800"},
        {"trace_context": {"traceparent": 1}},
    ],
    ids=str,
)
def test_malformed_facts_are_refused(llm: LLM, facts: dict[str, object]) -> None:
    """They cross to the engine with the request, and must be able to."""
    with pytest.raises(RequestError, match="malformed"):
        llm.generate([1], facts=RequestFacts(**facts))  # type: ignore[arg-type]


def test_unknown_facts_are_a_mistake() -> None:
    """Facts are a fixed set."""
    with pytest.raises(TypeError, match="colour"):
        RequestFacts(colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize("messages", [[{"role": "user"}], [{}]])
def test_incomplete_messages_render_as_the_template_will(
    llm: LLM, messages: list[dict[str, object]]
) -> None:
    """The template alone decides what a message must have."""
    tokenizer = llm.front_end.tokenizer

    assert tokenizer.decode(tokenizer.render_chat(messages)).endswith("<assistant>")


def test_a_template_that_refuses_is_a_bad_request(llm: LLM) -> None:
    """What the template raises names the messages."""
    with pytest.raises(RequestError, match="chat template") as caught:
        llm.front_end.tokenizer.render_chat(["no message"])  # type: ignore[list-item]

    assert caught.value.param == "messages"
