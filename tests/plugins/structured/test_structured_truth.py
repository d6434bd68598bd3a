"""Sampled outputs are instances of their schemas: a thousand of a thousand.

The judge is `jsonschema`. What a backend refuses is listed here, so that the list
cannot grow unnoticed.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, time
from functools import cache
from typing import Any

import jsonschema
import pytest

from hookline import LLM, SamplingParams, StructuredOutputsParams
from hookline.config import EngineConfig
from hookline.outputs import CompletionOutput
from hookline.request import FinishReason
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.loading import chosen_backends, make_backend
from hookline_grammars.spec import spec_of
from hookline_testing import assert_conserved
from hookline_testing.essential import essential

from .made_schemas import MADE
from .nasty_schemas import NASTY

SCHEMAS: Mapping[str, Mapping[str, Any]] = {**NASTY, **MADE}
SAMPLES: Mapping[str, int] = {"auto": 5, "xgrammar": 2, "llguidance": 2}
"""Outputs for each schema."""
WHOLE: Mapping[str, int] = {"auto": 1000, "xgrammar": 350, "llguidance": 350}
"""Of them, that must end before they have `MOST_TOKENS`, at least."""
MOST_TOKENS = 400
BACKENDS = tuple(SAMPLES)
BYTES = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b""],
    vocab_size=257,
    eos_token_ids=(256,),
    options={},
)

BY_NONE = {
    "array: contains",
    "array: unique",
    "number: nothing between",
    "object: conditional",
    "object: dependent",
    "object: never",
    "object: not",
    "pattern: lookahead",
    "pattern: word boundary",
    "union: one of integer and number",
    "union: one of open objects",
    "union: one of overlapping",
}
REFUSED: Mapping[str, set[str]] = {
    "auto": BY_NONE,
    "xgrammar": BY_NONE
    | {
        "array: older tuple",
        "enum: wider than its type",
        "number: cents",
        "number: fractional limits",
        "number: older exclusive",
        "object: unnamed and required",
        "pattern: anchors in branches",
        "pattern: newline",
        "pattern: no letters but umlauts",
        "pattern: quotes",
        "pattern: repetition in an alternative",
        "pattern: repetition in an optional part",
        "pattern: with a length",
        "reference: narrowed",
        "reference: percent",
        "reference: slash",
        "reference: tilde",
        "union: all of objects",
        "union: all of two",
        "union: any beside properties",
        "union: one of types",
    },
    "llguidance": BY_NONE
    | {
        "object: counted",
        "object: names",
        "pattern: no quotes",
        "reference: unicode",
    },
}


@cache
def compiles(backend: str, schema: str) -> bool:
    """Whether a backend takes a schema; if not, it says why."""
    spec = spec_of(StructuredOutputsParams(json=SCHEMAS[schema]))
    try:
        make_backend(backend, BYTES).compile(spec)
    except RefusedGrammarError as error:
        has_reason = str(error).startswith(f"{backend}: ")
    else:
        return True
    assert has_reason
    return False


@pytest.mark.parametrize("backend", essential(BACKENDS, "auto", slow=BACKENDS))
def test_these_schemas_are_refused_and_no_others(backend: str) -> None:
    """
    Each with a reason; two hundred can be followed by `auto`.
    """
    names = chosen_backends(backend)
    refused = {
        schema
        for schema in SCHEMAS
        if not any(compiles(each, schema) for each in names)
    }

    assert refused == REFUSED[backend]
    assert len(SCHEMAS) - len(REFUSED["auto"]) >= 200
    assert len(NASTY) - len(REFUSED["auto"]) >= 100


def a_moment(value: object) -> bool:
    """Whether a text is a date and time, or a time, of RFC 3339."""
    if not isinstance(value, str):
        return True
    if value.startswith("0000"):
        value = f"2000{value[4:]}"  # a year that Python lacks, likewise a leap year
    parsed = datetime if "T" in value else time
    return parsed.fromisoformat(value).tzinfo is not None


def a_date(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return len(value) == 10 and a_moment(f"{value}T00:00:00Z")


@pytest.fixture(scope="module")
def formats() -> jsonschema.FormatChecker:
    """All formats that the library knows without more libraries, and three more."""
    checker = jsonschema.FormatChecker()
    checker.checks("date-time", raises=ValueError)(a_moment)
    checker.checks("time", raises=ValueError)(a_moment)
    checker.checks("date", raises=ValueError)(a_date)
    return checker


def problem(
    schema: Mapping[str, Any], text: str, formats: jsonschema.FormatChecker
) -> str | None:
    """Returns what is wrong with an instance."""
    newest = jsonschema.Draft202012Validator
    validator = jsonschema.validators.validator_for(schema, default=newest)
    found = validator(schema, format_checker=formats).iter_errors(json.loads(text))
    return next((error.message for error in found), None)


def is_beginning(text: str) -> bool:
    """Whether a text is the beginning of JSON; judged by the grammar of any JSON."""
    backend = make_backend("llguidance", BYTES)
    spec = spec_of(StructuredOutputsParams(json={}))
    matcher = backend.matcher(backend.compile(spec), BYTES.eos_token_ids)
    return all(map(matcher.accept, text.encode()))


def test_the_beginning_of_json_is_told_from_other_texts() -> None:
    """
    The judge of outputs that their length cuts can say no.
    """
    assert is_beginning('{"a": [1, "é')
    assert not is_beginning('{"a": [1, }')
    assert not is_beginning('{"a" 1')


@pytest.fixture(scope="module", params=BACKENDS)
def truth_llm(request: pytest.FixtureRequest) -> Iterator[tuple[str, LLM]]:
    config = EngineConfig.from_options(
        model="demo",
        max_model_len=2048,
        kv_cache_memory="512MiB",
        # The truth is judged, not what a backend alone can do in the default time.
        structured_outputs_config={"backend": request.param, "compile_seconds": 2.0},
    )
    with LLM.from_config(config) as llm:
        yield request.param, llm
        assert_conserved(llm)


def sampled(backend: str, llm: LLM, names: list[str]) -> list[CompletionOutput]:
    """Random samples for each schema; with free whitespace for every other one.

    llguidance puts no limit on whitespace, which the model loves.
    """
    is_dense = backend == "llguidance"
    params = [
        SamplingParams(
            temperature=1.0,
            seed=seed,
            max_tokens=MOST_TOKENS,
            structured_outputs=StructuredOutputsParams(
                json=SCHEMAS[name], disable_any_whitespace=is_dense or bool(seed % 2)
            ),
        )
        for seed, name in enumerate(names)
    ]
    prompts = [f"# An example of {name}\nvalue = " for name in names]
    outputs = llm.generate(prompts, params, use_tqdm=False)
    return [each.outputs[0] for each in outputs]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_thousand_samples_are_instances_of_their_schemas(
    truth_llm: tuple[str, LLM], formats: jsonschema.FormatChecker
) -> None:
    """
    At temperature 1; an output that its length cuts is the beginning of JSON.
    """
    backend, llm = truth_llm
    left = [name for name in SCHEMAS if name not in REFUSED[backend]]
    names = left * SAMPLES[backend]

    wrong, whole = {}, 0
    for name, output in zip(names, sampled(backend, llm, names), strict=True):
        if output.finish_reason is FinishReason.LENGTH:
            assert is_beginning(output.text.removesuffix("\ufffd"))
            continue
        assert output.finish_reason is FinishReason.STOP
        whole += 1
        if (found := problem(SCHEMAS[name], output.text, formats)) is not None:
            wrong[name] = f"{found} in {output.text}"

    assert wrong == {}
    assert whole >= WHOLE[backend]
