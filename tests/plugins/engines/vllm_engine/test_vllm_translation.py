"""Requests become vLLM's, field by field, and its log-probabilities ours."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from hookline import SamplingParams
from hookline.config.extensions import KV_TRANSFER
from hookline.exceptions import GrammarError, RequestError
from hookline.payloads import ExtensionFacts
from hookline.request import GenerateRequest, RequestFacts
from hookline.structured_outputs import ReasoningSpan, StructuredOutputsParams
from hookline_vllm_engine.refusals import VllmFacts, create_extension_facts
from hookline_vllm_engine.translation import (
    logprobs_of,
    prompt_logprobs_of,
    translated,
)

from .fake_engine_core import BINDING

SHAPE = RequestFacts(
    client_id="cmpl-1",
    priority=3,
    trace_context={"traceparent": "00-a"},
    session_id="s",
)


def request(params: SamplingParams, **fields: object) -> GenerateRequest:
    return GenerateRequest(prompt_token_ids=[3, 4], params=params, **fields)  # type: ignore[arg-type]


def test_a_request_keeps_what_vllm_has_a_field_for() -> None:
    """Its number is its id, and salt, priority, session and trace go along."""
    made = translated(
        request(SamplingParams(), request_id=7, cache_salt="salt", facts=SHAPE), BINDING
    )

    assert (made.request_id, made.external_req_id) == ("7", "cmpl-1")
    assert made.prompt_token_ids == [3, 4]
    assert (made.cache_salt, made.priority, made.session_id) == ("salt", 3, "s")
    assert made.trace_headers == {"traceparent": "00-a"}


def test_parameters_mean_the_same() -> None:
    """Each completion has a seed of its own, and stop strings stay in the front end."""
    params = SamplingParams(
        max_tokens=9,
        min_tokens=2,
        temperature=0.5,
        top_k=4,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        logit_bias={5: 1.0},
        allowed_token_ids=(5, 6),
        bad_words=("no",),
        stop=("\n",),
        stop_token_ids=(8,),
        logprobs=2,
        prompt_logprobs=1,
        seed=10,
        extra_args={"a": 1},
    )

    made = translated(
        request(
            params,
            completion_index=2,
            eos_token_ids=(1, 2),
            bad_words_token_ids=((4, 5),),
            skip_reading_prefix_cache=True,
        ),
        BINDING,
    ).sampling_params

    assert (made.max_tokens, made.min_tokens) == (9, 2)
    assert (made.temperature, made.top_k, made.top_p, made.min_p) == (0.5, 4, 0.9, 0.1)
    penalties = made.repetition_penalty, made.presence_penalty, made.frequency_penalty
    assert penalties == (1.1, 0.2, 0.3)
    assert (made.logit_bias, made.allowed_token_ids) == ({5: 1.0}, [5, 6])
    assert (made._bad_words_token_ids, made.stop_token_ids) == ([[4, 5]], [8])
    assert (made.logprobs, made.prompt_logprobs, made.seed) == (2, 1, 12)
    assert (made.extra_args, made.skip_reading_prefix_cache) == ({"a": 1}, True)
    assert made.eos == ([1, 2], 1)
    assert made.detokenize is False


def test_a_negative_seed_is_a_seed() -> None:
    """vLLM takes -1 for none."""
    made = translated(request(SamplingParams(seed=-2), completion_index=1), BINDING)

    assert made.sampling_params.seed == 2**63 - 1


def test_what_is_usual_is_left_out() -> None:
    """Nothing is asked of vLLM that a request does not ask for."""
    made = translated(request(SamplingParams()), BINDING).sampling_params

    assert (made.top_k, made.seed, made.eos) == (0, None, ([], None))
    assert made.logit_bias is made.allowed_token_ids is made.extra_args is None
    assert made.structured_outputs is made._bad_words_token_ids is None


@pytest.mark.parametrize("is_plain", [False, True], ids=["typed", "from a wire"])
def test_a_grammar_is_the_same_over_a_wire(*, is_plain: bool) -> None:
    """In another process it is plain data."""
    wanted = StructuredOutputsParams(choice=("a", "b"), disable_any_whitespace=True)
    made = request(SamplingParams(structured_outputs=wanted))
    if is_plain:
        encoded = msgspec.msgpack.encode(made)
        made = msgspec.msgpack.decode(encoded, type=GenerateRequest)

    grammar = translated(made, BINDING).sampling_params.structured_outputs

    assert (grammar.choice, grammar.disable_any_whitespace) == (["a", "b"], True)
    assert grammar.json is grammar.regex is grammar.structural_tag is None


IDS = np.array([[7, 7, 9, 4], [3, 2, 3, 4]])
VALUES = np.array([[-0.5, -0.5, -1.0, -2.0], [-3.0, -0.25, -1.5, -2.0]])
RANKS = np.array([1, 3])


def test_logprobs_are_cut_to_what_the_request_asks_for() -> None:
    """A batch has as many as its greediest request wants."""
    lists = SimpleNamespace(
        logprob_token_ids=IDS, logprobs=VALUES, sampled_token_ranks=RANKS
    )

    found = logprobs_of(lists, SamplingParams(logprobs=2))
    none = logprobs_of(lists, SamplingParams())
    prompt = prompt_logprobs_of((IDS, VALUES, RANKS), SamplingParams(prompt_logprobs=0))

    assert found is not None
    assert [each.token_ids for each in found] == [[7, 7, 9], [3, 2, 3]]
    assert [each.logprobs for each in found] == [
        [-0.5, -0.5, -1.0],
        [-3.0, -0.25, -1.5],
    ]
    assert [each.rank for each in found] == [1, 3]
    assert none is None
    assert prompt is not None
    assert [each.token_ids for each in prompt] == [[7], [3]]


REASONED = StructuredOutputsParams(regex="a", reasoning=ReasoningSpan(end="</think>"))
REFUSED = {
    "logprobs": (SamplingParams(logprobs=6), {}),
    "prompt_logprobs": (SamplingParams(prompt_logprobs=6), {}),
    "temperature": (SamplingParams(temperature=2.5), {}),
    "speculation": (SamplingParams(speculation=False), {}),
    "min_p": (SamplingParams(min_p=0.1), {}),
    "logit_bias": (SamplingParams(logit_bias={1: 1.0}), {}),
    "structured_outputs": (SamplingParams(structured_outputs=REASONED), {}),
    "kv_transfer_params": (SamplingParams(), {KV_TRANSFER: {"a": 1}}),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_vllm_cannot_do_is_refused_by_its_field(field: str) -> None:
    """In the front end, which has the facts as another process sent them."""
    sent = msgspec.to_builtins(VllmFacts(most_logprobs=5, drafts=True))
    facts = create_extension_facts(ExtensionFacts(section=sent))
    params, sections = REFUSED[field]
    assert isinstance(facts, VllmFacts)

    with pytest.raises(RequestError) as refused:
        facts.prepared(None, request(params, sections=sections))

    assert refused.value.param == field
    assert isinstance(refused.value, GrammarError) is (field == "structured_outputs")


def test_what_vllm_can_do_is_not_refused() -> None:
    """Where it does not draft, what its drafts exclude is allowed."""
    facts = VllmFacts(most_logprobs=5)
    params = SamplingParams(logprobs=5, min_p=0.1, speculation=False)

    assert facts.prepared(None, request(params)) is None
    assert facts.prepared(None) is None
