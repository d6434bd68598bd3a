"""Schemas that no backend can follow cost only their own part of a grammar."""

import json
from itertools import pairwise
from typing import Any

import jsonschema
import pytest

from hookline import StructuredOutputsParams
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.loading import make_backend
from hookline_grammars.loosening import ANY_OBJECT, loosened, looser
from hookline_grammars.spec import GrammarSpec, spec_of

BYTES = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b""],
    vocab_size=257,
    eos_token_ids=(256,),
    options={},
)
PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
UNIQUE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    },
    "required": ["a"],
}
LOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "(?=a)b"}},
    "required": ["a"],
}
HOPELESS: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#/no"}}}
ODD: list[dict[str, Any]] = [
    UNIQUE,
    LOOKING,
    HOPELESS,
    {"type": "object", "not": {"required": ["a"]}},
    {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    {"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a", "maxLength": 2}},
        "$defs": {"a": {"type": "string"}},
    },
    {"allOf": [PLAIN, {"type": "object", "properties": {"b": {"type": "null"}}}]},
]
VALUES: list[Any] = [
    {},
    {"a": "x"},
    {"a": [1, 2]},
    {"a": [1, 1]},
    {"b": 1},
    {"a": "ab", "b": None},
]


def fits(schema: dict[str, Any], value: object) -> bool:
    """Whether a schema accepts a value; not if a reference in it leads nowhere."""
    if "#/no" in json.dumps(schema):
        return False
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def takes(backend: str) -> Any:
    made = make_backend(backend, BYTES)

    def does(spec: GrammarSpec) -> bool:
        try:
            made.compile(spec)
        except RefusedGrammarError:
            return False
        return True

    return does


def listed(*schemas: dict[str, Any]) -> GrammarSpec:
    """Returns the grammar of a list of these, each in a definition of its own."""
    names = [f"tool{index}" for index in range(len(schemas))]
    whole = {
        "type": "array",
        "items": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]},
        "$defs": dict(zip(names, schemas, strict=True)),
    }
    loose = tuple(f"/$defs/{name}" for name in names)
    return spec_of(StructuredOutputsParams(json=whole, loose=loose))


def test_looser_schemas_accept_what_stricter_ones_do() -> None:
    """
    They end with any object, and a schema itself is first.
    """
    faults = []
    for schema in ODD:
        forms = list(looser(schema))
        assert forms[0] == schema
        assert forms[-1] == ANY_OBJECT
        faults += [
            (schema, form, value)
            for stricter, form in pairwise(forms)
            for value in VALUES
            if fits(stricter, value) and not fits(form, value)
        ]

    assert not faults


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
def test_only_the_part_at_fault_is_loosened(backend: str) -> None:
    """
    Of what can be followed, all stays: types and required properties beside a rule that
    cannot. Then the whole can be followed.
    """
    pytest.importorskip(backend)
    does = takes(backend)
    spec = listed(PLAIN, UNIQUE, LOOKING, HOPELESS)
    assert not does(spec)

    found, changed = loosened(spec, does)

    tools = json.loads(found.source)["$defs"]
    assert tools["tool0"] == PLAIN
    assert tools["tool1"]["required"] == ["a"]
    assert tools["tool1"]["properties"]["a"]["items"] == {"type": "integer"}
    assert tools["tool2"]["properties"]["a"] == {"type": "string"}
    assert tools["tool3"] == ANY_OBJECT
    assert changed == 3
    assert does(found)


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
def test_a_tag_is_loosened_in_its_place(backend: str) -> None:
    """
    As its schema is a whole one, whatever surrounds it.
    """
    pytest.importorskip(backend)
    tags = [
        {
            "type": "tag",
            "begin": f"<{name}>",
            "content": {"type": "json_schema", "json_schema": schema},
            "end": f"</{name}>",
        }
        for name, schema in (("a", PLAIN), ("b", UNIQUE))
    ]
    listed_tags = {"type": "tags_with_separator", "tags": tags, "separator": "\n"}
    tag = {
        "type": "structural_tag",
        "format": {**listed_tags, "at_least_one": True},
    }
    loose = tuple(f"/format/tags/{each}/content/json_schema" for each in range(2))
    spec = spec_of(StructuredOutputsParams(structural_tag=tag, loose=loose))
    does = takes(backend)

    found, changed = loosened(spec, does)

    made = json.loads(found.source)["format"]["tags"]
    assert made[0] == tags[0]
    assert "uniqueItems" not in json.dumps(made[1])
    assert changed == 1
    assert does(found)
