"""Walks JSON schemas, and replaces formats with patterns."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

_BY_NAME = (
    *("properties", "patternProperties", "dependentSchemas"),
    *("$defs", "definitions"),
)
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_SINGLE = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("not", "if", "then", "else"),
)

_NESTING = {"array", "object"}
_MOST_LEVELS = 8
_UNKNOWN_LEVELS = 4
"""Levels of a value that the schema does not describe, or by a reference."""

_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])"
    "|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]{6}|\.[0-9]{3})?"
_TIME = rf"{_CLOCK}:[0-5][0-9]{_FRACTION}(?:Z|[+-]{_CLOCK})"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9])"
PATTERNS: Mapping[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "ipv4": rf"^{_BYTE}(?:\.{_BYTE}){{3}}$",
}
"""Patterns for formats that libraries match too loosely, such as February 30.

They have no repetitions in optional parts, which xgrammar gets wrong.
"""


def subschemas(schema: Schema) -> Iterator[object]:
    """Yields the direct subschemas of a schema, whether they are used or not."""
    for word in _BY_NAME:
        if isinstance(named := schema.get(word), dict):
            yield from named.values()
    for word in _LISTS:
        if isinstance(listed := schema.get(word), list):
            yield from listed
    for word in _SINGLE:
        yield schema.get(word)
    if isinstance(items := schema.get("items"), list):
        yield from items


def every_schema(root: object) -> Iterator[Schema]:
    """Yields a schema and all its subschemas, outer ones first, each once.

    The targets of its references are included, wherever they are.
    """
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        within = list(subschemas(schema))
        if isinstance(target := schema.get("$ref"), str):
            within.append(_at(root, target))
        waiting += reversed(within)


def _at(root: object, reference: str) -> object:
    """Returns the target of a reference within a schema; None if there is none."""
    if not reference.startswith("#"):
        return None
    found = root
    for step in unquote(reference[1:]).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else 0
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def most_space(schema: object) -> int:
    """Returns how much white space may be between two of JSON's tokens.

    It is enough for a line break and two spaces a level. Models could lose themselves
    in more.
    """
    return 1 + 2 * _levels(schema, _MOST_LEVELS)


def _levels(schema: object, most: int) -> int:
    """Returns how many arrays and objects a value may have around its innermost one."""
    if not isinstance(schema, dict) or not most:
        return 0
    inner = [*_listed(schema, ("properties", "patternProperties", "prefixItems"))]
    inner += [
        schema[word] for word in ("items", "additionalProperties") if word in schema
    ]
    beside = [*_listed(schema, ("anyOf", "oneOf", "allOf"))]
    kinds = schema.get("type")
    is_flat = not _NESTING.intersection(
        [kinds] if isinstance(kinds, str) else kinds or ()
    )
    is_plain = (bool(kinds) and is_flat) or "enum" in schema or "const" in schema
    if "$ref" in schema or not (inner or beside or is_plain):
        return min(most, _UNKNOWN_LEVELS)
    nested = max((_levels(each, most - 1) for each in inner), default=-1) + 1
    return max(nested, *(_levels(each, most) for each in beside), 0)


def _listed(schema: Schema, words: Iterable[str]) -> Iterator[object]:
    for word in words:
        found = schema.get(word)
        yield from found.values() if isinstance(found, dict) else found or ()


def formats_as_patterns(schema: object) -> bool:
    """Replaces strings' formats in `PATTERNS` with patterns; returns whether it did."""
    has_changed = False
    for each in every_schema(schema):
        name, kind = each.get("format"), each.get("type")
        pattern = PATTERNS.get(name) if isinstance(name, str) else None
        is_string = kind == "string" or (isinstance(kind, list) and "string" in kind)
        if pattern is None or not is_string or "pattern" in each:
            continue
        del each["format"]
        each["pattern"] = pattern
        has_changed = True
    return has_changed


def has_repeated_names(schema: Mapping[str, Any]) -> bool:
    """Whether `minProperties` may count properties of the same name twice.

    JSON Schema counts a name that is generated again only once.
    """
    least = schema.get("minProperties", 0)
    if not isinstance(least, int) or isinstance(least, bool):
        return False
    is_closed = schema.get("additionalProperties") is False
    if is_closed and not schema.get("patternProperties"):
        return False
    return least > len(set(schema.get("required", ()))) + 1
