"""Grammars and tools that are built to explode, as requests to a server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
FREE: Mapping[str, Any] = {"model": "demo", "prompt": "def main(", "max_tokens": 4}
_CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}


@dataclass(frozen=True, slots=True)
class Bomb:
    """A request that has to be refused.

    Attributes:
        path: Where it is sent.
        body: What is sent.
        field: The field that the error names; None for the body as a whole.
    """

    path: str
    body: Mapping[str, Any]
    field: str | None


def _completion(field: str, value: object) -> Bomb:
    return Bomb(COMPLETIONS, {**FREE, field: value}, field)


def _json(schema: object) -> Bomb:
    return _completion("guided_json", schema)


def _regex(pattern: str) -> Bomb:
    return _completion("guided_regex", pattern)


def _grammar(text: str) -> Bomb:
    return _completion("guided_grammar", text)


def _chat(schema: object) -> Bomb:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return Bomb(CHATS, {**_CHAT, "response_format": form}, "response_format")


def _tool(parameters: object, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "strict": True}}


def _calls(*tools: object) -> Bomb:
    return Bomb(CHATS, {**_CHAT, "tools": tools, "tool_choice": "required"}, "tools")


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _strings(count: int) -> dict[str, Any]:
    properties = {f"k{index}": {"type": "string"} for index in range(count)}
    return {"type": "object", "properties": properties}


def _rules(count: int) -> str:
    """Rules that begin and end with each other, and may be empty."""
    lines = ["root ::= " + " ".join(f"s{index}" for index in range(count))]
    for index in range(count):
        left, right = (index + 1) % count, (index + 7) % count
        lines.append(f's{index} ::= "a" s{left} | s{right} "a" | "a" | ""')
    return "\n".join(lines)


def _tags(count: int) -> dict[str, Any]:
    names = [f"<f{index}>" for index in range(count)]
    structures = [
        {"begin": name, "schema": {"enum": [name]}, "end": "</f>"} for name in names
    ]
    return {"structures": structures, "triggers": names}


def _many_names() -> dict[str, Any]:
    patterns: dict[str, object] = {
        f"^(a|b{{1,50}}){{1,50}}{index}$": {} for index in range(300)
    }
    return {"type": "object", "patternProperties": patterns}


BOMBS: Mapping[str, Bomb] = {
    "levels": _json(_nested(200)),
    "values": _json({"enum": list(range(10**5))}),
    "alternatives": Bomb(COMPLETIONS, {**FREE, "guided_choice": ["x"] * 10**6}, None),
    "alternatives of an expression": _regex("|".join(map(str, range(10**6)))),
    "alternatives of a rule": _grammar("root ::= " + " | ".join(['"x"'] * 10**6)),
    "characters": _regex("abcdefghij" * 10**4),
    "parentheses": _regex("(" * 20_000 + ")" * 20_000),
    "repetitions": _regex("((a{1,99}){1,99}){1,99}b*c"),
    "whole number": _regex("a{99999999999999999999}"),
    "rules": _grammar(_rules(30)),
    "rule of itself": _grammar("root ::= root"),
    "groups": _grammar(f"root ::= {'(' * 9000}{')' * 9000}"),
    "repeated rules": _grammar('root ::= (("a"{1,1000}){1,1000}){1,1000}'),
    "tags": Bomb(
        COMPLETIONS,
        {**FREE, "structured_outputs": {"structural_tag": _tags(1000)}},
        "structured_outputs",
    ),
    "properties": _chat(_strings(1000)),
    "unions": _chat({"anyOf": [_strings(30) for _ in range(200)]}),
    "names": _chat(_many_names()),
    "pattern": _chat({"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"}),
    "references": _chat({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    "whole numbers": _chat({"type": "integer", "maximum": 10**300}),
    # Without `strict`, these two functions may be called with any object.
    "tool": _calls(_strict(_tool(_strings(1000)))),
    "tools": _calls(*(_tool({}, f"f{index}") for index in range(10**4))),
    "tool of itself": _calls(_strict(_tool({"$ref": "#"}))),
}
