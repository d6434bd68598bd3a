"""Writes grammars as xgrammar reads them."""

import json
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def choices(source: str) -> str:
    """Returns an EBNF grammar of the texts in a JSON list."""
    return "root ::= " + " | ".join(map(_literal, json.loads(source)))


def _literal(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if (known := _ESCAPES.get(char)) is not None:
        return known
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def modern_tag(source: str) -> str:
    """Returns a structural tag in today's form; the older one lists `structures`."""
    given: dict[str, Any] = json.loads(source)
    if "structures" not in given:
        return source
    tags = [
        {
            "begin": each["begin"],
            "content": {"type": "json_schema", "json_schema": each["schema"]},
            "end": each["end"],
        }
        for each in given["structures"]
    ]
    format_ = {"type": "triggered_tags", "triggers": given["triggers"], "tags": tags}
    return json.dumps({"type": "structural_tag", "format": format_})
