"""Calls that a request forces: the grammar for them, and what their text says.

Where the model's own format cannot be forced (see `strict_calls`), it writes JSON that
the tools' schemas constrain: the arguments of a named function, or a list of calls.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import msgspec

from hookline.exceptions import LimitError
from hookline.structured_outputs import StructuredOutputsParams
from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.protocol.tools import Tool
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.parsers import ChosenParser, MakeCallId
from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.parts import CallBegun
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_ANY_OBJECT: Mapping[str, object] = {"type": "object"}
_NOTES = ("$comment", "default", "description", "examples", "title")
"""Keywords that say something to a model only, and can be long."""
_OF_NAMES = ("$defs", "definitions", "dependentSchemas", "patternProperties")
"""Keywords whose values are schemas by name, besides `properties`."""


def forced_schema(use: ToolUse) -> Mapping[str, object]:
    """Returns the JSON schema of the text that a forced call must match."""
    if use.choice is Choice.NAMED:
        named = next(tool for tool in use.tools if tool.name == use.name)
        return without_notes(named.parameters)
    # Each function's schema keeps its own definitions, where its references reach them.
    definitions = {
        f"tool{index}": _moved(tool.parameters, f"#/$defs/tool{index}")
        for index, tool in enumerate(use.tools)
    }
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool.name},
                "parameters": {"$ref": f"#/$defs/tool{index}"},
            },
            "required": ["name", "parameters"],
            "additionalProperties": False,
        }
        for index, tool in enumerate(use.tools)
    ]
    most = {} if use.is_parallel else {"maxItems": 1}
    return {
        "type": "array",
        "minItems": 1,
        **most,
        "items": calls[0] if len(calls) == 1 else {"anyOf": calls},
        "$defs": definitions,
    }


def without_notes(schema: Mapping[str, object]) -> dict[str, object]:
    """Returns a schema without what only a model reads, such as descriptions."""
    bare: dict[str, object] = _moved(schema, "#")
    return bare


def calls_grammar(
    document: Mapping[str, object], loose: Sequence[str], *, is_tag: bool
) -> StructuredOutputsParams:
    """Returns the grammar of forced calls.

    If it is too large, the largest of the loose schemas become any object.

    Args:
        document: The JSON schema or the structural tag.
        loose: Pointers to schemas in it that need not be followed.
        is_tag: Which of the two it is.

    Raises:
        RequestError: It is invalid, or too large nevertheless.
    """
    sizes = {each: len(msgspec.json.encode(_at(document, each))) for each in loose}
    rest = sorted(loose, key=sizes.__getitem__)
    while True:
        try:
            if is_tag:
                return StructuredOutputsParams(
                    structural_tag=document, loose=tuple(loose)
                )
            return StructuredOutputsParams(
                json=document,
                disable_any_whitespace=True,  # models get stuck in it
                loose=tuple(loose),
            )
        except LimitError:
            if not rest:
                raise
            document = _with(document, rest.pop().split("/")[1:], _ANY_OBJECT)


def _at(document: Any, pointer: str) -> object:
    for step in pointer.split("/")[1:]:
        document = document[int(step) if isinstance(document, list) else step]
    return document


def _with(document: Any, steps: Sequence[str], value: object) -> Any:
    """Returns a document with another value at a place, and shares all else."""
    if not steps:
        return value
    first, *others = steps
    key = int(first) if isinstance(document, list) else first
    changed = copy(document)
    changed[key] = _with(document[key], others, value)
    return changed


def loose_parts(use: ToolUse) -> tuple[str, ...]:
    """Returns pointers to the schemas in a forced one that need not be followed."""
    if use.choice is Choice.NAMED:
        return ("",) if any(_is_loose(each, use.name) for each in use.tools) else ()
    return tuple(
        f"/$defs/tool{index}"
        for index, tool in enumerate(use.tools)
        if _is_loose(tool, tool.name)
    )


def _is_loose(tool: Tool, name: str | None) -> bool:
    return tool.name == name and not tool.strict


def forced_parser(
    use: ToolUse, failures: FailureCounts, call_ids: MakeCallId
) -> ChosenParser:
    """Returns the parser for the text of forced calls, given what makes their ids."""
    is_named = use.choice is Choice.NAMED
    kind = NamedCallParser if is_named else RequiredCallsParser
    return ChosenParser(
        kind="tool",
        name="forced",
        make=partial(kind, call_ids=call_ids),
        needs_special_tokens=False,
        failures=failures,
    )


class _ForcedParser(SteppedToolParser):
    """Reads calls, whose ids the server makes."""

    needs_special_tokens = False

    def __init__(self, context: ToolParserContext, call_ids: MakeCallId) -> None:
        super().__init__(context)
        self._call_ids = call_ids
        self._num_calls = 0

    def begin_call(self, name: str, call_id: str | None = None) -> CallBegun:
        call_id = call_id or self._call_ids(name, self._num_calls)
        self._num_calls += 1
        return super().begin_call(name, call_id)


class NamedCallParser(_ForcedParser):
    """Takes the whole text for the arguments of the named function."""

    def steps(self) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        if (yield from self.reader.peek()):
            (name,) = self.tools
            yield self.begin_call(name)
            yield from self.json_arguments()
        while not self.reader.is_over:  # at most white space
            yield from self.reader.take_all()


class RequiredCallsParser(_ForcedParser):
    """`[{"name": "f", "parameters": {"a": 1}}, …]`."""

    def steps(self) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        yield from self.reader.accept("[")
        while True:
            yield from self.reader.skip_space()
            yield from self.reader.accept(",")
            yield from self.reader.skip_space()
            if not (yield from CallObject(self, names=self.tools).steps()):
                break
        while not self.reader.is_over:  # at most the end of the list
            yield from self.reader.take_all()


def _moved(schema: Any, root: str) -> Any:
    """Returns a schema without notes, whose references start at another root."""
    if isinstance(schema, list):
        return [_moved(each, root) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", *_OF_NAMES) and isinstance(value, dict):
            moved[key] = {name: _moved(each, root) for name, each in value.items()}
        elif key in ("const", "enum"):
            moved[key] = value
        elif key not in _NOTES:
            moved[key] = _moved(value, root)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference.removeprefix("#")
    return moved
