"""Calls that a request forces: the grammar for them, and what their text says.

The model writes JSON that the tools' schemas constrain, whatever its own format is: the
arguments of a named function, or a list of calls.
"""

from collections.abc import Mapping

from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.parsers import ChosenParser
from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps


def forced_schema(use: ToolUse) -> Mapping[str, object]:
    """Returns the JSON schema of the text that a forced call must match."""
    if use.choice is Choice.NAMED:
        return next(tool.parameters for tool in use.tools if tool.name == use.name)
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


def forced_parser(use: ToolUse, failures: FailureCounts) -> ChosenParser:
    """Returns the parser for the text of forced calls."""
    is_named = use.choice is Choice.NAMED
    return ChosenParser(
        kind="tool",
        name="forced",
        make=NamedCallParser if is_named else RequiredCallsParser,
        needs_special_tokens=False,
        failures=failures,
    )


class NamedCallParser(SteppedToolParser):
    """Takes the whole text for the arguments of the named function."""

    needs_special_tokens = False

    def steps(self) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        if (yield from self.reader.peek()):
            (name,) = self.tools
            yield self.begin_call(name)
            yield from self.json_arguments()
        while not self.reader.is_over:  # at most white space
            yield from self.reader.take_all()


class RequiredCallsParser(SteppedToolParser):
    """`[{"name": "f", "parameters": {"a": 1}}, …]`."""

    needs_special_tokens = False

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


def _moved(schema: object, root: str) -> object:
    """Returns a schema whose references start at another root."""
    if isinstance(schema, list):
        return [_moved(each, root) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, root) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference.removeprefix("#")
    return moved
