"""Refuses what llguidance would get wrong in a JSON schema."""

import re
from collections.abc import Iterator
from typing import Any

from hookline_grammars.json_schemas import every_schema, has_repeated_names
from hookline_grammars.pattern_parts import CharacterSet, parts

_CONTROL = re.compile(r"[\x00-\x1f]")
_QUOTED = '"\\'
_CONTROLS = [chr(code) for code in range(32) if chr(code) not in "\t\n\r\f\v"]
_OPERATORS = ("[", "&&", "--", "~~")
"""Operators on character classes that only llguidance knows."""


def check_schema(schema: object) -> None:
    """Raises `ValueError` with the first rule that would not be enforced."""
    for each in every_schema(schema):
        for reason in _reasons(each):
            raise ValueError(f"{reason} is not supported")


def _reasons(schema: dict[str, Any]) -> Iterator[str]:
    if has_repeated_names(schema):
        yield "'minProperties' beyond the required properties"
    named = _names(schema.get("properties"))
    if schema.get("additionalProperties", True) is not False:
        # It looks for one spelling of a name, and there are two.
        for name in filter(_CONTROL.search, named):
            yield f"a name with control characters ({name!r}) beside others"
    patterns = [schema.get("pattern"), *_names(schema.get("patternProperties"))]
    for pattern in patterns:
        if isinstance(pattern, str):
            yield from _of_pattern(pattern)


def _names(properties: object) -> list[str]:
    return list(properties) if isinstance(properties, dict) else []


def _of_pattern(pattern: str) -> Iterator[str]:
    for part in parts(pattern):
        if isinstance(part, CharacterSet) and _is_wrong(part.text):
            yield f"the set {part.text!r} in a pattern"


def _is_wrong(text: str) -> bool:
    """Whether a character class has an operator, or control characters unescaped.

    In JSON, llguidance writes such a class with all possible escapes.
    """
    inner = text[1:-1]
    if any(each in re.sub(r"\\.", "", inner) for each in _OPERATORS):
        return True
    try:
        is_in = re.compile(text).fullmatch
    except re.error:
        return not inner.startswith("\\p")
    has_controls = any(map(is_in, _CONTROLS))
    return has_controls and not all(map(is_in, _QUOTED))
