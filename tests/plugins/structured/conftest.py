"""Engines whose outputs have to match grammars, and what checks them."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hookline import LLM, SamplingParams, StructuredOutputsParams, TokensPrompt
from hookline.config import CacheConfig, Dtype, EngineConfig, ModelConfig
from hookline.outputs import CompletionOutput
from hookline.request import FinishReason
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle, make_oracle

EOS = 300
"""A token id of the random model that no byte has."""


@dataclass(frozen=True)
class Case:
    """A grammar, and whether a complete text matches it."""

    params: StructuredOutputsParams
    matches: Callable[[str], bool]


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-zä]{0,6}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "bc", None]}, "maxItems": 3},
        "more": {"anyOf": [{"type": "boolean"}, {"const": {"x": 1}}]},
    },
    "required": ["name", "age", "tags", "more"],
    "additionalProperties": False,
}


def is_person(text: str) -> bool:
    value = json.loads(text)
    return (
        set(value) == {"name", "age", "tags", "more"}
        and re.fullmatch("[a-zä]{0,6}", value["name"]) is not None
        and type(value["age"]) is int
        and 0 <= value["age"] <= 130
        and len(value["tags"]) <= 3
        and all(each in ("a", "bc", None) for each in value["tags"])
        and value["more"] in (True, False, {"x": 1})
    )


CASES: dict[str, Case] = {
    "json": Case(
        StructuredOutputsParams(json=PERSON, disable_any_whitespace=True), is_person
    ),
    "regex": Case(
        StructuredOutputsParams(regex=r"[0-9]{3}-(ab|c){1,9}é?x{2,4}"),
        lambda text: re.fullmatch(r"[0-9]{3}-(ab|c){1,9}é?x{2,4}", text) is not None,
    ),
    "choice": Case(
        StructuredOutputsParams(choice=("yes", 'n"o', "später\n")),
        lambda text: text in ("yes", 'n"o', "später\n"),
    ),
    "grammar": Case(
        StructuredOutputsParams(
            grammar='root ::= item ("," item){0,9}\nitem ::= [a-c] [0-9] [0-9]?'
        ),
        lambda text: re.fullmatch(r"[a-c]\d\d?(,[a-c]\d\d?){0,9}", text) is not None,
    ),
}
"""All of their texts are short."""


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A model with random weights, a token for each byte and a stop token."""
    oracle = make_oracle("llama", tmp_path_factory.mktemp("structured"))
    path = oracle.folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "eos_token_id": EOS}))
    generation: Path = oracle.folder / "generation_config.json"
    if generation.exists():
        kept = json.loads(generation.read_text())
        generation.write_text(json.dumps({**kept, "eos_token_id": EOS}))
    return oracle


def config_of(folder: object, **options: object) -> EngineConfig:
    return EngineConfig(
        # Exact enough for equal tokens in batches of any size.
        model=ModelConfig(model=str(folder), dtype=Dtype.FLOAT32),
        cache=CacheConfig(num_kv_blocks=512),
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture(
    scope="session",
    params=["random", pytest.param("demo", marks=pytest.mark.exhaustive)],
)
def structured_llm(
    request: pytest.FixtureRequest, random_model: Oracle
) -> Iterator[LLM]:
    """An engine of the random model, or of the demo model."""
    name = random_model.folder if request.param == "random" else "demo"
    with LLM.from_config(config_of(name)) as llm:
        yield llm
        assert_conserved(llm)


def check(case: Case, output: CompletionOutput) -> bool:
    """Asserts that a text matches; returns whether it was not cut by its length."""
    if output.finish_reason is FinishReason.LENGTH:
        return False
    assert output.finish_reason is FinishReason.STOP
    assert case.matches(output.text), output.text
    return True


def tokens(*more: int) -> TokensPrompt:
    """A prompt that both models take."""
    return TokensPrompt(prompt_token_ids=[11, 150, 42, *more])


def sampled(case: Case, **fields: Any) -> SamplingParams:
    """Random sampling with room for nearly all texts."""
    return SamplingParams(
        **{
            "max_tokens": 200,
            "temperature": 1.0,
            "structured_outputs": case.params,
            **fields,
        }
    )


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A model with random weights and no stop token."""
    return make_oracle("llama", tmp_path_factory.mktemp("endless"))
