"""Refuses what xgrammar would ignore in a JSON schema, or get wrong.

Outputs must satisfy the whole schema. Where xgrammar would silently ignore a rule, the
client gets an error before anything is generated.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hookline_grammars.json_schemas import every_schema
from hookline_xgrammar.name_check import name_problems
from hookline_xgrammar.pattern_check import pattern_problems

_UNSUPPORTED = {
    *("$dynamicRef", "$recursiveRef", "contains", "maxContains", "minContains"),
    *("dependencies", "dependentRequired", "dependentSchemas"),
    *("if", "then", "else", "not"),
}
ASSERTED = (
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6"),
    *("json-pointer", "relative-json-pointer", "time", "uri", "uri-reference"),
    *("uri-template", "uuid"),
)
"""String formats that xgrammar enforces."""
_OF_NUMBERS = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
}
_OF_STRINGS = {"minLength", "maxLength", "pattern"}
_OF_ARRAYS = {"minItems", "maxItems"}
_OF_OBJECTS = {"minProperties", "maxProperties", "propertyNames", "patternProperties"}
_ARRAYS = {"items", "prefixItems", "unevaluatedItems"}
_OBJECTS = {"properties", "additionalProperties", "unevaluatedProperties"}
"""Keywords that make xgrammar take a schema without a type for an array or object."""
_RULES = {
    *_UNSUPPORTED,
    *_OF_NUMBERS,
    *_OF_STRINGS,
    *_OF_ARRAYS,
    *_OF_OBJECTS,
    *_ARRAYS,
    *_OBJECTS,
    *("$ref", "additionalItems", "allOf", "anyOf", "const", "enum", "oneOf"),
    *("required", "type", "uniqueItems"),
}
"""All other keywords are annotations, or unknown, which amounts to the same."""
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
    """Raises `ValueError` with the first rule that would not be enforced."""
    of_names: set[int] = set()
    for each in every_schema(schema):
        of_names.add(id(each.get("propertyNames")))
        typed = {"type": "string", **each} if id(each) in of_names else each
        for reason in _reasons(typed):
            raise ValueError(f"{reason} is not supported")


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
    yield from _of_types(schema)
    has_format = schema.get("format") in ASSERTED
    if ("pattern" in keys or has_format) and keys & {"minLength", "maxLength"}:
        yield "a length beside 'pattern' or 'format'"
    if "pattern" in keys and has_format:
        yield "'pattern' beside 'format'"
    yield from pattern_problems(schema.get("pattern"))
    yield from _of_references(schema)
    yield from _of_combinations(schema)
    yield from _of_values(schema)
    yield from name_problems(schema)


def _of_types(schema: Schema) -> Iterator[str]:
    """Yields what is ignored without a type."""
    keys = schema.keys()
    if schema.get("type") == []:
        yield "an empty 'type'"
    if "type" in keys:
        return
    ignored = keys & (_OF_NUMBERS | _OF_STRINGS)
    if schema.get("format") in ASSERTED:
        ignored |= {"format"}
    if not keys & _ARRAYS:
        ignored |= keys & _OF_ARRAYS
    if not keys & _OBJECTS:
        ignored |= keys & _OF_OBJECTS
    if ignored:
        yield f"{min(ignored)!r} without 'type'"


def _of_references(schema: Schema) -> Iterator[str]:
    if (target := schema.get("$ref")) is None:
        return
    if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
        yield f"the reference {target!r}, which is not a path in the schema,"
    for key in schema.keys() & _RULES - {"$ref"}:
        yield f"{key!r} beside '$ref'"


def _of_combinations(schema: Schema) -> Iterator[str]:
    for word in ("anyOf", "oneOf", "allOf"):
        if not isinstance(branches := schema.get(word), list):
            continue
        if word == "allOf" and len(branches) > 1:
            yield "'allOf' with several schemas"
        others = schema.keys() & _RULES - {word}
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
        for key in sorted(schema.keys() & _RULES - {word, "type"}):
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
