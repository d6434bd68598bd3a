"""Grammars that are built to explode end in an error, and others do not notice."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hookline import (
    LLM,
    RequestError,
    SamplingParams,
    StructuredOutputsParams,
    TokensPrompt,
)
from hookline.config import EngineConfig
from hookline.exceptions import GrammarError
from hookline.request import FinishReason
from hookline_grammars.backend import BackendContext
from hookline_grammars.loading import make_backend
from hookline_grammars.spec import spec_of
from hookline_grammars.trial import Trial, Way
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

from .conftest import CASES, Case, sampled

PROMPT = TokensPrompt(prompt_token_ids=[11, 150, 42])

EXPLODING: dict[str, dict[str, Any]] = {
    "nested repetition": {"regex": "(((a{1,100}){1,100}){1,100}){1,100}"},
    "optional properties": {
        "json": {
            "type": "object",
            "properties": {f"k{index}": {"type": "string"} for index in range(1000)},
        }
    },
    "unions of objects": {
        "json": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        f"k{key}": {"anyOf": [{"type": "string"}, {"type": "integer"}]}
                        for key in range(30)
                    },
                }
                for _ in range(50)
            ]
        }
    },
}


@pytest.fixture(scope="module")
def hostile_llm(random_model: Oracle) -> Iterator[LLM]:
    config = EngineConfig.from_options(model=str(random_model.folder), num_kv_blocks=64)
    with LLM.from_config(config) as llm:
        yield llm
        assert_conserved(llm)


@pytest.mark.hostile
@pytest.mark.parametrize("name", EXPLODING)
def test_a_grammar_that_explodes_is_refused(hostile_llm: LLM, name: str) -> None:
    """
    The limit of processor time ends its process, not the engine; the next one works.
    """
    case = Case(StructuredOutputsParams(**EXPLODING[name]), bool)

    for _ in range(2):  # the second time without compiling
        with pytest.raises(
            RequestError, match="xgrammar: compiling it takes more than"
        ):
            hostile_llm.generate(PROMPT, sampled(case))

    [output] = hostile_llm.generate(PROMPT, sampled(CASES["choice"]))
    assert CASES["choice"].matches(output.outputs[0].text)


@pytest.mark.hostile
def test_others_are_served_while_a_grammar_explodes(hostile_llm: LLM) -> None:
    """
    Requests without a grammar and with another one end in the same call.
    """
    bomb = Case(StructuredOutputsParams(regex="((a{1,99}){1,99}){1,98}b*c"), bool)
    free = SamplingParams(max_tokens=20, seed=1)
    [alone] = hostile_llm.generate(PROMPT, free)

    with pytest.raises(RequestError, match="processor time"):
        hostile_llm.generate([PROMPT] * 3, [free, sampled(bomb), free])
    [again] = hostile_llm.generate(PROMPT, free)

    assert again.outputs[0].token_ids == alone.outputs[0].token_ids


@pytest.mark.parametrize(
    "fields",
    [
        {"choice": ["x"] * 10**6},
        {"json": "[" * 10**6},
        {"regex": "(" * 10**6},
        {"json": json.dumps({"enum": list(range(10**5))})},
    ],
)
def test_what_is_too_large_is_refused_before_it_is_sent(fields: dict[str, Any]) -> None:
    """
    A million alternatives or levels reach no engine.
    """
    before = threading.active_count()

    with pytest.raises(RequestError):
        StructuredOutputsParams(**fields)

    assert threading.active_count() == before


AMBIGUOUS = 'root ::= x*\nx ::= y*\ny ::= "a"*'
"""It compiles at once; each `a` takes more time than the one before it."""


def test_an_output_that_its_grammar_slows_down_ends_alone(hostile_llm: LLM) -> None:
    """
    As a refusal, for a second try would be as slow; others in the batch do not notice.
    """
    slow = Case(StructuredOutputsParams(grammar=AMBIGUOUS), bool)
    params = sampled(slow, ignore_eos=True, max_tokens=240)
    free = SamplingParams(max_tokens=30, seed=1)
    [alone] = hostile_llm.generate(PROMPT, free)

    with pytest.raises(GrammarError, match="too much processor time for this output"):
        hostile_llm.generate([PROMPT] * 2, [params, free])

    [again] = hostile_llm.generate(PROMPT, free)
    assert again.outputs[0].token_ids == alone.outputs[0].token_ids
    counts: dict[Any, Any] = {
        sample.labels[2:]: sample.value
        for family in hostile_llm.get_metrics()
        if family.name in {"hookline_requests_finished", "hookline_requests_rejected"}
        for sample in family.samples
    }
    assert counts["rejected",] >= 1
    assert counts["invalid_grammar",] >= 1
    assert counts["error",] == 0
    [output] = hostile_llm.generate(PROMPT, sampled(CASES["regex"]))
    assert output.outputs[0].finish_reason is FinishReason.STOP


LONG = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b"a" * 128, b"", b"b" * 40],
    vocab_size=259,
    eos_token_ids=(257,),
    options={},
)


def test_long_tokens_are_accepted_in_pieces() -> None:
    """
    Whole or not at all, and taken back whole.
    """
    backend = make_backend("xgrammar", LONG)
    spec = spec_of(StructuredOutputsParams(regex="(a{128}b{30,50})*"))
    matcher = backend.matcher(backend.compile(spec), (257,))
    at_start, at_end = np.zeros((2, 9), np.int32)
    matcher.fill(at_start)

    assert not matcher.accept(258)
    assert matcher.accept(256)
    assert not matcher.accept(256)
    assert matcher.accept(258)
    assert matcher.accept(ord("b"))
    matcher.rollback(3)
    matcher.fill(at_end)

    assert at_start.tolist() == at_end.tolist()
    assert matcher.accept(256)


def test_a_long_token_cannot_hang_in_an_ambiguous_grammar() -> None:
    """
    Its time is looked at between the pieces. A trial with the longest tokens shows it.
    """
    backend = make_backend("xgrammar", LONG)
    data = backend.compile(spec_of(StructuredOutputsParams(grammar=AMBIGUOUS)))

    matcher = backend.matcher(data, (257,))
    assert matcher.accept(97)
    with pytest.raises(TimeoutError):
        all(matcher.accept(256) for _ in range(10))
    with pytest.raises(TimeoutError):
        Trial(LONG).walk(backend.matcher(data, (257,)), Way.LONGEST)
