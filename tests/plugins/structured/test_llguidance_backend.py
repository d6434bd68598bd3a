"""The backend llguidance: its options, its kinds of grammars, its matchers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hookline import LLM, StructuredOutputsParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.loading import chosen_backends, make_backend
from hookline_grammars.spec import spec_of
from hookline_grammars.trial import Trial, Way
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

from .conftest import CASES, EOS, check, sampled, tokens

CONTEXT = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b"ab", b'{"a":'],
    vocab_size=320,
    eos_token_ids=(EOS,),
    options={},
)
TAG = {
    "structures": [{"begin": "<a>", "schema": {"enum": [7]}, "end": "</a>"}],
    "triggers": ["<a"],
}


def compiled(**fields: Any) -> bytes:
    backend = make_backend("llguidance", CONTEXT)
    return backend.compile(spec_of(StructuredOutputsParams(**fields)))


def allowed(mask: npt.NDArray[np.int32]) -> set[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@pytest.mark.parametrize(
    "content",
    [
        {"type": "qwen_xml_parameter", "json_schema": {}},
        {"type": "json_schema", "json_schema": {}, "style": "glm_xml"},
        {"type": "any_text"},
    ],
)
def test_tags_of_other_contents_are_refused(content: dict[str, Any]) -> None:
    """
    They would be taken for JSON.
    """
    tag = {"begin": "<a>", "content": content, "end": "</a>"}
    inner = {"type": "triggered_tags", "triggers": ["<a"], "tags": [tag]}

    with pytest.raises(RefusedGrammarError, match="only tags of JSON"):
        compiled(structural_tag={"type": "structural_tag", "format": inner})


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("Hi", True),
        ("Hi <call>7</call> ok", True),
        ("Hi <cat>", True),
        ("Hi <call>8</call>", False),
    ],
)
def test_a_trigger_in_brackets_is_text(text: str, is_allowed: bool) -> None:
    """
    The library would take it for a special token, which it does not know.
    """
    content = {"type": "json_schema", "json_schema": {"enum": [7]}}
    tag = {"begin": "<call>", "content": content, "end": "</call>"}
    inner = {"type": "triggered_tags", "triggers": ["<call>"], "tags": [tag]}
    backend = make_backend("llguidance", CONTEXT)
    data = compiled(structural_tag={"type": "structural_tag", "format": inner})

    matcher = backend.matcher(data, (EOS,))

    assert all(map(matcher.accept, [*text.encode(), EOS])) == is_allowed


def test_a_matcher_goes_on_and_back() -> None:
    """
    Stop tokens are those of the request; a refused token changes nothing.
    """
    backend = make_backend("llguidance", CONTEXT)
    data = backend.compile(spec_of(StructuredOutputsParams(regex="ab?c?")))
    matcher, mask = backend.matcher(data, (310, EOS)), np.zeros(10, np.int32)

    matcher.fill(mask)
    assert allowed(mask) == {ord("a"), 256}
    assert not matcher.accept(ord("b"))
    assert not matcher.accept(EOS)
    assert matcher.accept(ord("a"))
    matcher.fill(mask)
    assert allowed(mask) == {ord("b"), ord("c"), 310, EOS}
    assert matcher.accept(ord("c"))
    matcher.fill(mask)
    assert allowed(mask) == {310, EOS}
    assert matcher.accept(310)
    assert matcher.is_terminated
    matcher.rollback(3)
    assert not matcher.is_terminated
    matcher.fill(mask)
    assert allowed(mask) == {ord("a"), 256}


def test_what_must_follow_is_spelt_by_the_longest_tokens() -> None:
    """
    The beginning of an object with a single property is forced.
    """
    backend = make_backend("llguidance", CONTEXT)
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}}
    strict = {**schema, "required": ["a"], "additionalProperties": False}
    params = StructuredOutputsParams(json=strict, disable_any_whitespace=True)
    matcher = backend.matcher(backend.compile(spec_of(params)), (EOS,))

    assert matcher.forced(9) == [257]
    assert matcher.accept(257)
    assert matcher.forced(9) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"json": {"type": "thing"}},
        {"json": {"uniqueItems": True}},
        {"json": {"$ref": "http://127.0.0.1:9/x"}},
        {"json": {"type": "string", "pattern": '^[^"]$'}},
        {"json": {"type": "string", "pattern": "^[a&&b]$"}},
        {"json": {"properties": {"a\nb": {"type": "null"}}}},
        {"json": {"additionalProperties": {"type": "null"}, "minProperties": 2}},
        {"regex": "("},
        {"grammar": "root ::= missing"},
        {"structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}},
        {"structural_tag": {"structures": [{"begin": "x"}], "triggers": []}},
    ],
    ids=str,
)
def test_what_it_cannot_follow_is_refused(fields: dict[str, Any]) -> None:
    """
    With a reason, and without fetching anything.
    """
    with pytest.raises(RefusedGrammarError, match=r"llguidance: \S"):
        compiled(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        *({"structured": case.params} for case in CASES.values()),
        {"json_object": True},
        {"structural_tag": TAG},
        {"json": {"properties": {"a": {}}}, "disable_additional_properties": True},
        {"json": {}, "whitespace_pattern": " ?"},
        {"json": {"type": "string", "format": "unknown to all"}},
        {"grammar": 'start: "x" /[0-9]{4}/'},
    ],
    ids=str,
)
def test_grammars_can_be_followed(fields: dict[str, Any]) -> None:
    """
    Whatever a mask allows is accepted.
    """
    backend = make_backend("llguidance", CONTEXT)
    params = fields.pop("structured", None) or StructuredOutputsParams(**fields)
    data = backend.compile(spec_of(params))

    trial = Trial(CONTEXT)
    for way in Way:
        trial.walk(backend.matcher(data, (EOS,)), way)


@pytest.mark.parametrize("kind", CASES)
def test_sampled_texts_match_by_llguidance(guided_llm: LLM, kind: str) -> None:
    """
    Random samples of every kind, in a whole engine.
    """
    case = CASES[kind]

    [output] = guided_llm.generate(tokens(), sampled(case, n=8))

    whole = [check(case, each) for each in output.outputs]
    assert any(whole)


@pytest.fixture(scope="module")
def guided_llm(random_model: Oracle) -> Any:
    config = EngineConfig.from_options(
        model=str(random_model.folder),
        num_kv_blocks=256,
        structured_outputs_config={"backend": "guidance"},
    )
    with LLM.from_config(config) as llm:
        yield llm
        assert_conserved(llm)


@pytest.mark.parametrize("name", ["xgrammar", "llguidance"])
def test_backends_are_chosen_by_name(name: str) -> None:
    """
    `auto` is both of them; vLLM's name of llguidance works; options are refused.
    """
    assert chosen_backends(name) == (name,)
    assert chosen_backends("auto") == ("xgrammar", "llguidance")
    assert chosen_backends("guidance") == ("llguidance",)
    assert chosen_backends("none") == ()
    with pytest.raises(ConfigError, match="xgrammar"):
        chosen_backends("xgramar")
    context = BackendContext(
        tokens=[b"a"], vocab_size=1, eos_token_ids=(0,), options={"x": 1}
    )
    with pytest.raises(ConfigError, match="no option 'x'"):
        make_backend(name, context)
