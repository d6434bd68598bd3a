"""Refuses what xgrammar would ignore in a JSON schema, or get wrong.

Outputs are to satisfy the whole schema. Where xgrammar leaves a rule out without a
word, the client hears of it before anything is generated.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_ANNOTATIONS = {
    *("$anchor", "$comment", "$defs", "$id", "$schema", "definitions"),
    *("contentEncoding", "contentMediaType", "default", "deprecated", "description"),
    *("discriminator", "example", "examples", "format", "readOnly", "title"),
    "writeOnly",
}
_UNSUPPORTED = {
    *("$dynamicRef", "$recursiveRef", "contains", "maxContains", "minContains"),
    *("dependencies", "dependentRequired", "dependentSchemas"),
    *("if", "then", "else", "not"),
}
_OF_NUMBERS = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
}
_OF_STRINGS = {"minLength", "maxLength", "pattern"}
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_SINGLE = (
    "items",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}

Schema = Mapping[str, Any]


def check_schema(schema: object) -> None:
    """Raises `ValueError` with the first rule that would not be followed."""
    if not isinstance(schema, dict):
        return
    for reason in _reasons(schema):
        raise ValueError(f"{reason} is not supported")
    for each in _subschemas(schema):
        check_schema(each)


def check_tag(value: object) -> None:
    """Checks the schemas in a structural tag, as `check_schema` does."""
    if isinstance(value, dict):
        check_schema(value.get("json_schema"))
        for each in value.values():
            check_tag(each)
    elif isinstance(value, list):
        for each in value:
            check_tag(each)


def _reasons(schema: Schema) -> Iterator[str]:
    keys = schema.keys()
    yield from (repr(key) for key in keys if key in _UNSUPPORTED)
    if schema.get("uniqueItems") is True:
        yield "'uniqueItems'"
    if "type" not in schema and keys & (_OF_NUMBERS | _OF_STRINGS):
        (key, *_) = sorted(keys & (_OF_NUMBERS | _OF_STRINGS))
        yield f"{key!r} without 'type'"
    if len(keys & {"pattern", "format"}) == 1 and keys & {"minLength", "maxLength"}:
        yield "a length beside 'pattern' or 'format'"
    if "pattern" in keys and "format" in keys:
        yield "'pattern' beside 'format'"
    yield from _of_references(schema)
    yield from _of_combinations(schema)
    yield from _of_values(schema)
    named = schema.get("properties", {})
    for name in schema.get("required", ()):
        if isinstance(named, dict) and name not in named:
            yield f"a required property ({name!r}) without a schema in 'properties'"


def _of_references(schema: Schema) -> Iterator[str]:
    if (target := schema.get("$ref")) is None:
        return
    if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
        yield f"the reference {target!r}, which is not a path in the schema,"
    for key in schema.keys() - _ANNOTATIONS - {"$ref"}:
        yield f"{key!r} beside '$ref'"


def _of_combinations(schema: Schema) -> Iterator[str]:
    for word in ("anyOf", "oneOf", "allOf"):
        if not isinstance(branches := schema.get(word), list):
            continue
        if word == "allOf" and len(branches) > 1:
            yield "'allOf' with several schemas"
        others = schema.keys() - _ANNOTATIONS - {word}
        if others == {"type"} and all(_has_type(each, schema) for each in branches):
            continue
        for key in sorted(others):
            yield f"{key!r} beside {word!r}"


def _has_type(branch: object, schema: Schema) -> bool:
    return isinstance(branch, dict) and branch.get("type") == schema["type"]


def _of_values(schema: Schema) -> Iterator[str]:
    """Yields reasons against `enum` and `const`, beside which all else is ignored."""
    for word in ("enum", "const"):
        if word not in schema:
            continue
        values = schema[word] if word == "enum" else [schema[word]]
        for key in sorted(schema.keys() - _ANNOTATIONS - {word, "type"}):
            yield f"{key!r} beside {word!r}"
        if "type" in schema and isinstance(values, list):
            names = schema["type"]
            names = [names] if isinstance(names, str) else names
            if not all(_is_of(each, names) for each in values):
                yield f"a value in {word!r} that is not of the 'type'"


def _is_of(value: object, names: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in names
    is_whole = isinstance(value, float) and value.is_integer()
    return any(
        isinstance(value, _TYPES.get(name, ())) or (name == "integer" and is_whole)
        for name in names
    )


def _subschemas(schema: Schema) -> Iterator[object]:
    for word in _BY_NAME:
        if isinstance(named := schema.get(word), dict):
            yield from named.values()
    for word in _LISTS:
        if isinstance(listed := schema.get(word), list):
            yield from listed
    for word in _SINGLE:
        yield schema.get(word)
    if isinstance(names := schema.get("propertyNames"), dict):
        yield {"type": "string", **names}
