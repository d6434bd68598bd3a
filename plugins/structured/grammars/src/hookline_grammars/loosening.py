"""Leaves out of schemas what no backend can follow, where a request allows it.

What a schema accepts, a looser one accepts, too.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import msgspec

from hookline.structured_outputs import GrammarKind
from hookline_grammars.json_schemas import Schema, every_schema
from hookline_grammars.spec import GrammarSpec

ANY_OBJECT: Schema = {"type": "object"}

_RARE = (
    *("$dynamicRef", "$recursiveRef", "contains", "maxContains", "minContains"),
    *("dependencies", "dependentRequired", "dependentSchemas", "propertyNames"),
    *("if", "then", "else", "not", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
"""Rules that backends have least."""
_FINE = (
    *("pattern", "format", "minLength", "maxLength", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minProperties", "maxProperties"),
)
"""Rules of single values."""
_COMBINING = ("allOf", "anyOf", "oneOf")
_SHAPES = ("type", "properties", "items", "prefixItems", "enum", "const")
_DEFINITIONS = ("$defs", "definitions")


def part_of(spec: GrammarSpec, pointer: str) -> Schema:
    """Returns the schema at a pointer (RFC 6901) in a grammar's source."""
    found: Any = json.loads(spec.source)
    for step in _steps(pointer):
        found = found[_key(found, step)]
    if not isinstance(found, dict):
        raise TypeError(f"there is no schema at {pointer!r}")
    return found


def alone(spec: GrammarSpec, pointer: str, part: Schema) -> GrammarSpec:
    """Returns the grammar of a part by itself, to see whether it can be followed."""
    schema = part
    if spec.kind is GrammarKind.JSON and pointer:  # where its references reach it
        schema = {"$ref": f"#{pointer}"}
        place = schema
        *outer, last = _steps(pointer)
        for step in outer:
            place = place.setdefault(step, {})
        place[last] = part
    return msgspec.structs.replace(
        spec, kind=GrammarKind.JSON, source=json.dumps(schema), loose=()
    )


def with_part(spec: GrammarSpec, pointer: str, part: Schema) -> GrammarSpec:
    """Returns the grammar with another schema at a pointer."""
    if not pointer:
        return msgspec.structs.replace(spec, source=json.dumps(part))
    whole = place = json.loads(spec.source)
    *outer, last = _steps(pointer)
    for step in outer:
        place = place[_key(place, step)]
    place[_key(place, last)] = part
    return msgspec.structs.replace(spec, source=json.dumps(whole))


def looser(schema: Schema) -> Iterator[Schema]:
    """Yields a schema, and ever looser ones up to any object."""
    yield schema
    for change in (_without_rare, _without_fine):
        schema = deepcopy(schema)
        for each in list(every_schema(schema)):
            change(each)
        yield schema
    yield ANY_OBJECT


def _without_rare(schema: Schema) -> None:
    for word in _RARE:
        schema.pop(word, None)
    if isinstance(branches := schema.pop("oneOf", None), list):
        _unless_there(schema, "anyOf", branches)


def _without_fine(schema: Schema) -> None:
    for word in _FINE:
        schema.pop(word, None)
    if schema.pop("patternProperties", None) is not None:
        schema["additionalProperties"] = True
    if "$ref" in schema:
        for word in (*_SHAPES, *_COMBINING, "required", "additionalProperties"):
            schema.pop(word, None)
    elif not schema.keys().isdisjoint(_SHAPES):
        for word in _COMBINING:
            schema.pop(word, None)
    else:
        schema.pop("allOf", None)
    named = schema.get("properties")
    if isinstance(named, dict) and isinstance(schema.get("required"), list):
        schema["required"] = [each for each in schema["required"] if each in named]


def _unless_there(schema: Schema, word: str, value: object) -> None:
    if word not in schema:
        schema[word] = value


def _steps(pointer: str) -> list[str]:
    steps = pointer.split("/")[1:]
    return [each.replace("~1", "/").replace("~0", "~") for each in steps]


def _key(found: object, step: str) -> Any:
    return int(step) if isinstance(found, list) else step


Takes = Callable[[GrammarSpec], bool]


def loosened(spec: GrammarSpec, takes: Takes) -> tuple[GrammarSpec, int]:
    """Returns a grammar whose loose parts can each be followed.

    Args:
        spec: A grammar that cannot be followed as it is.
        takes: Whether a grammar can be followed.

    Returns:
        The grammar, and how many of its parts are looser than they were.
    """
    found, changed = spec, 0
    for pointer in spec.loose:
        part = part_of(spec, pointer)
        for each in looser(part):
            if each is ANY_OBJECT or takes(alone(spec, pointer, each)):
                break
        if each is not part:
            found, changed = with_part(found, pointer, each), changed + 1
    return found, changed
