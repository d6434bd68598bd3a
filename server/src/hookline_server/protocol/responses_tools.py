"""The tools of `/v1/responses`, which are defined without a nested `function`."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import TOOLS
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.tool_use import (
    CHOICE_WORDS,
    MODES,
    Choice,
    Chosen,
    ToolFields,
    ToolUse,
    allowed_tools,
    check_known,
    use_of,
    word_choice,
)
from hookline_server.protocol.tools import Tool, read_functions
from hookline_server.protocol.wire import Name, convert

_FIELD = "tool_choice"


class ResponsesTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool; those that OpenAI's servers run are refused."""

    type: Annotated[Name, bounds(const="function")]
    name: str | None = None
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class AllowedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call."""

    type: Annotated[Name, bounds(const="function")] = "function"
    name: Name


class ResponsesChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that the model must call, or those that it may."""

    type: Annotated[Name, bounds(enum=["function", "allowed_tools"])]
    name: Name | None = None
    mode: Annotated[Name, bounds(enum=list(MODES))] | None = None
    tools: list[AllowedTool] | None = None


def responses_tool_use(request: ToolFields) -> ToolUse:
    """Reads the tools of a request.

    Raises:
        LimitError: The tools are too many, too large or nested too deeply.
        RequestError: A field is wrong, or two of them contradict each other.
    """
    tools = read_tools(request.tools or ())
    return use_of(_choice(request.tool_choice, tools), request.parallel_tool_calls)


def read_tools(given: Sequence[object]) -> tuple[Tool, ...]:
    """Reads the field `tools`; raises what `responses_tool_use` does."""
    TOOLS.check(len(given))
    return read_functions(
        [_definition(each, f"tools[{index}]") for index, each in enumerate(given)],
        field="tools",
    )


def _definition(given: object, place: str) -> dict[str, object]:
    tool = convert(given, ResponsesTool, place)
    if tool.type != "function":
        raise RequestError(
            f"{place}.type must be 'function', not {tool.type!r}: this server runs no "
            "tools itself",
            param=f"{place}.type",
        )
    if tool.name is None:
        raise RequestError(f"{place}.name is missing", param=f"{place}.name")
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


def _choice(given: object, tools: tuple[Tool, ...]) -> Chosen:
    if given is None or isinstance(given, str):
        return Chosen(word_choice(given, tools, CHOICE_WORDS, _FIELD), None, tools)
    choice = convert(given, ResponsesChoice, _FIELD)
    if choice.type == "allowed_tools":
        names = [each.name for each in choice.tools or ()]
        mode = choice.mode or "auto"
        allowed = allowed_tools(mode, names, tools, _FIELD, place="tools[{}].name")
        return Chosen(Choice(mode), None, allowed)
    if choice.type != "function":
        raise RequestError(
            f"{_FIELD}.type must be 'function' or 'allowed_tools', not {choice.type!r}",
            param=f"{_FIELD}.type",
        )
    check_known(choice.name or "", tools, f"{_FIELD}.name")
    return Chosen(Choice.NAMED, choice.name, tools)
