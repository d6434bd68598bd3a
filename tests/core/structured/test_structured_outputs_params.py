"""What a structured output may be, checked before anything is copied or sent."""

import json
from typing import Any

import msgspec
import pytest

from hookline import RequestError, SamplingParams, StructuredOutputsParams
from hookline.structured_outputs import GrammarKind
from hookline_grammars.spec import GrammarSpec, spec_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_schema_is_kept_as_text() -> None:
    """
    A schema as an object and the same one as text are the same grammar.
    """
    text = json.dumps(SCHEMA, separators=(",", ":"))
    by_object = StructuredOutputsParams(json=SCHEMA)
    by_text = StructuredOutputsParams(json=text)

    assert by_object == by_text
    assert spec_of(by_object) == GrammarSpec(GrammarKind.JSON, text)
    assert spec_of(by_object).key == spec_of(by_text).key


def test_specifications_differ_in_every_field() -> None:
    """
    Grammars share a cache entry only if they are compiled alike.
    """
    specs = [
        spec_of(StructuredOutputsParams(json=SCHEMA)),
        spec_of(StructuredOutputsParams(json=SCHEMA, disable_any_whitespace=True)),
        spec_of(
            StructuredOutputsParams(json=SCHEMA, disable_additional_properties=True)
        ),
        spec_of(StructuredOutputsParams(json=SCHEMA, whitespace_pattern=" ?")),
        spec_of(StructuredOutputsParams(structural_tag=SCHEMA)),
        spec_of(StructuredOutputsParams(json_object=True)),
    ]

    assert len({spec.key for spec in specs}) == len(specs)


def test_it_travels_to_an_engine() -> None:
    """
    Sampling parameters with a structured output survive the wire.
    """
    params = SamplingParams(
        structured_outputs=StructuredOutputsParams(choice=["a", 'b"'])  # type: ignore[arg-type]
    )

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams)

    assert again == params
    assert again.structured_outputs is not None
    assert json.loads(spec_of(again.structured_outputs).source) == ["a", 'b"']


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "exactly one"),
        ({"json": {}, "regex": "a"}, "json and regex"),
        ({"json_object": False}, "exactly one"),
        ({"json": "{"}, "not JSON"),
        ({"json": "[1]"}, "JSON object"),
        ({"json": {1: 2}}, "not strings"),
        ({"json": nested(65)}, "levels of nesting"),
        ({"json": json.dumps(nested(65))}, "levels of nesting"),
        ({"json": "[" * 100_000}, "levels of nesting"),
        ({"json": {"enum": [0] * 20_000}}, "JSON values"),
        ({"json": {"title": "x" * 200_000}}, "bytes"),
        ({"regex": ""}, "not empty"),
        ({"regex": "x" * 200_000}, "bytes"),
        ({"regex": "a\0"}, "U+0000"),
        ({"regex": "\ud800"}, "Unicode"),
        ({"grammar": 5}, "string"),
        ({"choice": []}, "not be empty"),
        ({"choice": "abc"}, "list of strings"),
        ({"choice": ["a", ""]}, "not empty"),
        ({"choice": ["a", 1]}, "strings"),
        ({"choice": ["a"] * 10**6}, "choices"),
        ({"choice": ["a"], "whitespace_pattern": ""}, "whitespace_pattern"),
    ],
)
def test_a_malformed_one_is_refused(fields: dict[str, Any], reason: str) -> None:
    """
    The error names the reason.
    """
    with pytest.raises(RequestError) as caught:
        StructuredOutputsParams(**fields)

    assert reason in str(caught.value)
    assert caught.value.param == "structured_outputs"


def test_two_rules_for_the_same_tokens_are_refused() -> None:
    """
    Allowed token ids could leave a grammar nothing.
    """
    with pytest.raises(RequestError, match="allowed_token_ids"):
        SamplingParams(
            structured_outputs=StructuredOutputsParams(regex="a"),
            allowed_token_ids=(1,),
        )
