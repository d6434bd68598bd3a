"""Grammars that are built to explode end in an error, and others do not notice."""

import json
import threading
from typing import Any

import pytest

from hookline import (
    LLM,
    RequestError,
    SamplingParams,
    StructuredOutputsParams,
    TokensPrompt,
)
from hookline.config import EngineConfig
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
def hostile_llm(random_model: Oracle) -> Any:
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
        with pytest.raises(RequestError, match="more than 1 s of processor time"):
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
