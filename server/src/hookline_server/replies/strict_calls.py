"""Calls that have to follow schemas in the model's own format.

They are those of strict functions, and those that a request forces.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hookline_server.engine import ServingEngine
from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.protocol.tools import Tool
from hookline_server.replies.forced_calls import without_notes
from hookline_server.replies.parsers import ChosenParser
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_FIXED = ("begin", "end", "separator", "triggers")
"""Keys of a structural tag whose values the model writes literally."""


_STYLED = "xgrammar"
"""The backend that knows arguments of other forms than JSON."""

Tag = Mapping[str, object]


def strict_tag(
    engine: ServingEngine, parser: ChosenParser | None, use: ToolUse
) -> Tag | None:
    """Returns the structural tag that makes calls follow their schemas.

    Returns None if there is nothing to enforce, or if it cannot be enforced: without a
    grammar backend, in a format without such a tag, or where calls are marked by
    special tokens, which no grammar contains.
    """
    strict = frozenset(tool.name for tool in use.tools if tool.strict)
    if not strict or use.choice is not Choice.AUTO:
        return None
    return _tag(engine, parser, use.tools, strict)


def forced_tag(
    engine: ServingEngine, parser: ChosenParser | None, use: ToolUse
) -> Tag | None:
    """Returns the structural tag of a reply that is a call, in the model's own format.

    A named function is called once, as in JSON. Returns None if the format cannot be
    forced, as above, or has a tag of unknown form.
    """
    tools = [tool for tool in use.tools if use.name in (None, tool.name)]
    tag = _tag(engine, parser, tools, frozenset(tool.name for tool in tools))
    if tag is None or not isinstance(inner := tag.get("format"), Mapping):
        return None
    is_parallel = use.is_parallel and use.choice is not Choice.NAMED
    listed = _only_calls(inner, is_parallel=is_parallel)
    is_styled = any(each != "json" for each in _texts(listed, ("style",)))
    if is_styled and _STYLED not in engine.facts.structured_outputs:
        return None
    return None if listed is None else {"type": "structural_tag", "format": listed}


def loose_tags(tag: Tag, use: ToolUse) -> tuple[str, ...]:
    """Returns pointers to the schemas in a forced tag that need not be followed."""
    strict = [without_notes(tool.parameters) for tool in use.tools if tool.strict]
    return tuple(
        pointer for pointer, schema in _schemas(tag, "") if schema not in strict
    )


def _tag(
    engine: ServingEngine,
    parser: ChosenParser | None,
    tools: Sequence[Tool],
    strict: frozenset[str],
) -> Tag | None:
    if (
        parser is None
        or not parser.has_structural_tags
        or not engine.facts.structured_outputs
    ):
        return None
    schemas = {tool.name: without_notes(tool.parameters) for tool in tools}
    tag = parser.structural_tag(ToolParserContext(tools=schemas), strict)
    if tag is None or any(
        special in text
        for special in engine.texts.special_texts
        for text in _texts(tag, _FIXED)
    ):
        return None
    return tag


def _only_calls(inner: Mapping[str, Any], *, is_parallel: bool) -> Tag | None:
    """Returns a format without the free text around calls; None if it is unknown."""
    match inner:
        case {"type": "triggered_tags", "tags": [*tags]}:
            listed = {
                "type": "tags_with_separator",
                "tags": [{"type": "tag", **each} for each in tags],
                "separator": "\n",
                "at_least_one": True,
            }
        case {"type": "or", "elements": [{"type": "tags_with_separator"} as calls, *_]}:
            listed = dict(calls)
        case _:
            return None
    return listed if is_parallel else _limited(listed)


def _limited(listed: Mapping[str, Any]) -> Tag:
    """Returns a list of calls, or of lists of calls, that ends after the first."""
    tags = [
        {**each, "content": _limited(each["content"])}
        if each["content"].get("type") == "tags_with_separator"
        else each
        for each in listed["tags"]
    ]
    return {**listed, "tags": tags, "stop_after_first": True}


def _schemas(value: object, pointer: str) -> Iterator[tuple[str, object]]:
    """Yields the schemas in a structural tag, each with a pointer to it."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name == "json_schema":
                yield f"{pointer}/{name}", each
            else:
                yield from _schemas(each, f"{pointer}/{name}")
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _schemas(each, f"{pointer}/{index}")


def _texts(value: object, keys: Sequence[str], key: str = "") -> Iterator[str]:
    """Yields the texts of a structural tag that have one of these keys."""
    if isinstance(value, str):
        if key in keys:
            yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if name != "json_schema":
                yield from _texts(each, keys, name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, keys, key)
