"""What xgrammar would get wrong in a JSON schema is refused, the rest is not."""

from typing import Any

import pytest

from hookline_xgrammar.schema_check import check_schema, check_tag

SUPPORTED: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}},
    {"type": "object", "properties": {"pattern": {}, "not": {}}, "required": ["not"]},
    {"type": "string", "pattern": "^a+$", "description": "x", "default": "a"},
    {"type": ["string", "null"], "maxLength": 2},
    {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 3},
    {"type": "number", "enum": [1, 2.5]},
    {"type": "integer", "const": 2.0},
    {"enum": ["a", 1, None, True]},
    {"type": "boolean", "enum": [True]},
    {"type": "array", "prefixItems": [{"const": 1}], "items": False},
    {"type": "array", "uniqueItems": False},
    {"type": "object", "propertyNames": {"pattern": "^x"}},
    {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"$ref": "#"}, {"const": 1}]}}},
    {"type": "object", "anyOf": [{"type": "object"}, {"type": "object"}]},
    {"allOf": [{"type": "integer", "minimum": 1}], "title": "one"},
    {"enum": ["a"], "nullable": True, "x-unknown": 1},
    {"items": {}, "minItems": 1},
    {"type": "string", "format": "password", "maxLength": 3},
    {"type": "string", "pattern": r'^[^"\\]{1,3}\.(ab|c)?(x|y){2,3}$'},
    {"type": "object", "patternProperties": {"^a": {}}, "properties": {"b": {}}},
]

IGNORED: dict[str, dict[str, Any]] = {
    "'uniqueItems'": {"type": "array", "uniqueItems": True},
    "'contains'": {"type": "array", "contains": {"const": 1}},
    "'not'": {"type": "integer", "not": {"const": 1}},
    "'if'": {"if": {}},
    "'dependentRequired'": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "'allOf' with several": {"allOf": [{"type": "integer"}, {"type": "number"}]},
    "'minimum' without": {"minimum": 1},
    "'maxLength' without": {"maxLength": 1},
    "a length beside": {"type": "string", "pattern": "a", "maxLength": 1},
    "'pattern' beside": {"type": "string", "pattern": "a", "format": "date"},
    "'minimum' beside 'anyOf'": {"type": "integer", "minimum": 1, "anyOf": [{}]},
    "'type' beside 'oneOf'": {"type": "integer", "oneOf": [{"const": 1}]},
    "'type' beside '$ref'": {"$ref": "#/$defs/a", "type": "integer"},
    "the reference '#a'": {"$ref": "#a"},
    "the reference 'http": {"$ref": "http://x.y/z"},
    "'$dynamicRef'": {"$dynamicRef": "#a"},
    "not of the 'type'": {"type": "string", "enum": ["a", 1]},
    "'maxLength' beside 'enum'": {"type": "string", "enum": ["a"], "maxLength": 3},
    "'z'": {"type": "object", "properties": {"a": {}}, "required": ["z"]},
    "'minItems' without": {"minItems": 2},
    "'maxProperties' without": {"maxProperties": 1},
    "'patternProperties' without": {"patternProperties": {"^a": {}}},
    "'format' without": {"format": "uuid"},
    "an empty 'type'": {"type": []},
    "'minProperties' beyond": {
        "type": "object",
        "additionalProperties": {},
        "minProperties": 2,
    },
    "'propertyNames' beside": {
        "type": "object",
        "properties": {"abc": {}},
        "propertyNames": {"maxLength": 2},
    },
    "a name with escapes": {
        "type": "object",
        "properties": {'a"b': {}},
        "additionalProperties": True,
    },
    "with several patterns": {
        "type": "object",
        "patternProperties": {"^a": {}, "b$": {"type": "null"}},
    },
    "'ab') that one of 'patternProperties'": {
        "type": "object",
        "properties": {"ab": {}},
        "patternProperties": {"^a": {"type": "null"}},
    },
    "'\"' in a pattern": {"type": "string", "pattern": '^"$'},
    "'\\n' in a pattern": {"type": "string", "pattern": r"^\n$"},
    "the set '[^é]'": {"type": "string", "pattern": "^[^é]$"},
    "the set '[ -é]'": {"type": "string", "pattern": "^[ -é]$"},
    "a repetition in an optional": {"type": "string", "pattern": "^a(xy*)?b$"},
    "an alternative of a pattern": {"type": "string", "pattern": "^(b+|[ab])$"},
}


@pytest.mark.parametrize("schema", SUPPORTED, ids=str)
def test_supported_schemas_pass(schema: dict[str, Any]) -> None:
    """
    Names of properties are no keywords, and annotations change nothing.
    """
    check_schema(schema)


@pytest.mark.parametrize("reason", IGNORED)
def test_rules_that_would_be_ignored_are_named(reason: str) -> None:
    """
    Wherever they are: in the schema, in a property, or in a structural tag.
    """
    schema = IGNORED[reason]
    for whole in (schema, {"type": "object", "properties": {"x": {"items": schema}}}):
        with pytest.raises(ValueError, match="is not supported") as caught:
            check_schema(whole)
        assert reason in str(caught.value)

    with pytest.raises(ValueError, match="is not supported"):
        check_tag({"format": {"tags": [{"content": {"json_schema": schema}}]}})
