"""Refuses what xgrammar would get wrong in the names of an object's properties."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hookline_grammars.json_schemas import has_repeated_names
from hookline_xgrammar.pattern_check import pattern_problems

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


def name_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields why an object's properties would not follow its schema."""
    named = schema.get("properties", {})
    if not isinstance(named, dict):
        return
    for name in schema.get("required", ()):
        if name not in named:
            yield f"a required property ({name!r}) without a schema in 'properties'"
    if has_repeated_names(schema):
        yield "'minProperties' beyond the required properties"
    if "propertyNames" in schema and (named or schema.get("patternProperties")):
        yield "'propertyNames' beside properties that have schemas"
    if schema.get("additionalProperties", False) is not False:
        # It compares the plain name with names in their escaped spelling.
        for name in filter(_ESCAPED.search, named):
            yield f"a name with escapes ({name!r}) beside 'additionalProperties'"
    yield from _of_patterns(schema, named)


def _of_patterns(
    schema: Mapping[str, Any], named: Mapping[str, object]
) -> Iterator[str]:
    patterns = schema.get("patternProperties", {})
    if not isinstance(patterns, dict):
        return
    if len(patterns) > 1:
        yield "'patternProperties' with several patterns"
    for pattern in patterns:
        yield from pattern_problems(pattern)
        for name in named:
            if _may_match(pattern, name):
                yield f"a property ({name!r}) that one of 'patternProperties' matches"


def _may_match(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True
