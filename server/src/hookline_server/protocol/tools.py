"""The functions that a model may call, as clients define them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import (
    TOOL_NAME_LENGTH,
    TOOLS,
    TOOLS_BYTES,
    TOOLS_DEPTH,
)
from hookline_server.protocol.body_structure import depth
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.wire import Name, convert

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NO_PARAMETERS: dict[str, object] = {"type": "object", "properties": {}}


class FunctionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model may call, as the client defines it."""

    name: Annotated[
        str, bounds(pattern=f"^{_NAME.pattern}$", maxLength=TOOL_NAME_LENGTH.most)
    ]
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a request; only functions are supported."""

    type: Annotated[Name, bounds(const="function")] = "function"
    function: Annotated[dict[str, object], held(FunctionDefinition)]


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: Name = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call.

    Attributes:
        name: Its name.
        description: What it does, for the model; empty if the client did not say.
        parameters: JSON schema of its arguments, which are an object.
        strict: Whether calls must follow the schema, even if no call is forced.
    """

    name: str
    description: str
    parameters: dict[str, object]
    strict: bool

    def for_template(self) -> dict[str, object]:
        """Returns the tool as chat templates expect it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


def read_tools(given: Sequence[object]) -> tuple[Tool, ...]:
    """Reads the field `tools`.

    Raises:
        LimitError: They are too many, too large or nested too deeply.
        RequestError: One is not a function definition, or two have the same name.
    """
    check_sizes(given, "tools")
    definitions = [_definition(each, index) for index, each in enumerate(given)]
    return _distinct(definitions, "tools[{}].function")


def read_functions(
    given: Sequence[object], field: str = "functions"
) -> tuple[Tool, ...]:
    """Reads `functions`, the former name of `tools`; raises what `read_tools` does.

    Args:
        given: The definitions, without the wrapper that they have in `tools`.
        field: The request's field, for errors.
    """
    check_sizes(given, field)
    return _distinct(given, f"{field}[{{}}]")


def check_sizes(given: Sequence[object], field: str) -> None:
    """Raises `LimitError` if tools are too many, too large or nested too deeply."""
    TOOLS.check(len(given), param=field)
    data = msgspec.json.encode(given)
    TOOLS_BYTES.check(len(data), param=field)
    TOOLS_DEPTH.check(depth(data, TOOLS_DEPTH.most + 1), param=field)


def _definition(given: object, index: int) -> object:
    place = f"tools[{index}]"
    tool = convert(given, _Typed, place)
    if tool.type != "function":
        raise RequestError(
            f"{place}.type must be 'function', not {tool.type!r}: tools of other types "
            "are not supported",
            param=f"{place}.type",
        )
    return convert(given, ToolDefinition, place).function


def read_function(given: object, place: str) -> Tool:
    """Reads the definition of a function; may raise `RequestError`."""
    function = convert(given, FunctionDefinition, place)
    TOOL_NAME_LENGTH.check(len(function.name), param=f"{place}.name")
    if not _NAME.fullmatch(function.name):
        raise RequestError(
            f"{place}.name must consist of letters, digits, '_', '-' and '.', not "
            f"{function.name!r}",
            param=f"{place}.name",
        )
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or _NO_PARAMETERS,
        strict=bool(function.strict),
    )


def _distinct(definitions: Sequence[object], place: str) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    for index, each in enumerate(definitions):
        here = place.format(index)
        tool = read_function(each, here)
        if tool.name in tools:
            raise RequestError(
                f"{here}.name {tool.name!r} is the name of another function, too",
                param=f"{here}.name",
            )
        tools[tool.name] = tool
    return tuple(tools.values())
