"""Calls of strict functions that the model is free to make."""

from collections.abc import Iterator, Mapping

from hookline_server.engine import ServingEngine
from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.replies.parsers import ChosenParser
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_FIXED = ("begin", "end", "separator", "triggers")
"""Keys of a structural tag whose values the model writes literally."""


def strict_tag(
    engine: ServingEngine, parser: ChosenParser | None, use: ToolUse
) -> Mapping[str, object] | None:
    """Returns the structural tag that makes calls follow their schemas.

    Returns None if there is nothing to enforce, or if it cannot be enforced: without a
    grammar backend, in a format without such a tag, or where calls are marked by
    special tokens, which no grammar contains.
    """
    strict = frozenset(tool.name for tool in use.tools if tool.strict)
    if (
        not strict
        or use.choice is not Choice.AUTO
        or parser is None
        or not parser.has_structural_tags
        or not engine.facts.structured_outputs
    ):
        return None
    schemas = {tool.name: tool.parameters for tool in use.tools}
    tag = parser.structural_tag(ToolParserContext(tools=schemas), strict)
    if tag is None or any(
        special in text
        for special in engine.texts.special_texts
        for text in _fixed(tag)
    ):
        return None
    return tag


def _fixed(value: object, key: str = "") -> Iterator[str]:
    """Yields the literal texts of a structural tag."""
    if isinstance(value, str):
        if key in _FIXED:
            yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if name != "json_schema":
                yield from _fixed(each, name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _fixed(each, key)
