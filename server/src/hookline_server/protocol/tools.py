"""The functions that a model may call, as clients define them."""

import re
from collections.abc import Iterable, Sequence
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
from hookline_server.protocol.ignored import Ignored
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
    """A tool of a request; others than functions are left out."""

    type: Annotated[Name, bounds(const="function")] = "function"
    function: Annotated[dict[str, object], held(FunctionDefinition)]


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: str = "function"
    function: object = None


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


def read_tools(given: Sequence[object], ignored: Ignored) -> tuple[Tool, ...]:
    """Reads the field `tools`, without those that the server would have to run.

    Args:
        given: The tools.
        ignored: Notes what is left out.

    Raises:
        LimitError: They are too many, too large or nested too deeply.
        RequestError: One is not a function definition, or two have the same name.
    """
    check_sizes(given, "tools")
    functions = []
    for index, each in enumerate(given):
        place = f"tools[{index}]"
        tool = convert(each, _Typed, place)
        if tool.type != "function" and tool.function is None:
            ignored.add("tool", tool.type)
            continue
        definition = convert(each, ToolDefinition, place).function
        functions.append((f"{place}.function", definition))
    return distinct_functions(functions)


def read_functions(
    given: Sequence[object], field: str = "functions"
) -> tuple[Tool, ...]:
    """Reads `functions`, the former name of `tools`; raises what `read_tools` does.

    Args:
        given: The definitions, without the wrapper that they have in `tools`.
        field: The request's field, for errors.
    """
    check_sizes(given, field)
    return distinct_functions(
        [(f"{field}[{index}]", each) for index, each in enumerate(given)]
    )


def check_sizes(given: Sequence[object], field: str) -> None:
    """Raises `LimitError` if tools are too many, too large or nested too deeply."""
    TOOLS.check(len(given), param=field)
    data = msgspec.json.encode(given)
    TOOLS_BYTES.check(len(data), param=field)
    TOOLS_DEPTH.check(depth(data, TOOLS_DEPTH.most + 1), param=field)


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


def distinct_functions(
    definitions: Iterable[tuple[str, object]],
) -> tuple[Tool, ...]:
    """Returns functions, given where each stands in the request.

    Raises:
        LimitError: A name is too long.
        RequestError: One is not a function definition, or two have the same name.
    """
    tools: dict[str, Tool] = {}
    for place, each in definitions:
        tool = read_function(each, place)
        if tool.name in tools:
            raise RequestError(
                f"{place}.name {tool.name!r} is the name of another function, too",
                param=f"{place}.name",
            )
        tools[tool.name] = tool
    return tuple(tools.values())
