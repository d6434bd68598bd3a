"""The tools of Anthropic's API."""

from collections.abc import Sequence

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.anthropic_request import (
    AnthropicChoice,
    AnthropicTool,
    CountTokensRequest,
)
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.tool_use import NO_TOOLS, Choice, ToolUse, check_known
from hookline_server.protocol.tools import Tool, check_sizes, distinct_functions
from hookline_server.protocol.wire import convert


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    input_schema: object = None


_CHOICES = {
    "auto": Choice.AUTO,
    "any": Choice.REQUIRED,
    "tool": Choice.NAMED,
    "none": Choice.NONE,
}


def anthropic_tool_use(request: CountTokensRequest, ignored: Ignored) -> ToolUse:
    """Reads the tools of a request, without those that the provider's servers run.

    Args:
        request: The request.
        ignored: Notes what is left out.

    Raises:
        LimitError: The tools are too many, too large or nested too deeply.
        RequestError: A field is wrong, or two of them contradict each other.
    """
    tools = _read_tools(request.tools or (), ignored)
    if request.tool_choice is None:
        return ToolUse(tools=tools, choice=Choice.AUTO) if tools else NO_TOOLS
    given = convert(request.tool_choice, AnthropicChoice, "tool_choice")
    choice = _CHOICES.get(given.type)
    if choice is None:
        raise RequestError(
            f"tool_choice.type must be one of {', '.join(_CHOICES)}, not "
            f"{given.type[:64]!r}",
            param="tool_choice.type",
        )
    if choice is Choice.REQUIRED and not tools:
        raise RequestError("tool_choice 'any' requires tools", param="tool_choice")
    if choice is Choice.NAMED:
        check_known(given.name or "", tools, "tool_choice.name")
    if choice is Choice.NONE or not tools:
        return NO_TOOLS
    return ToolUse(
        tools=tools,
        choice=choice,
        name=given.name if choice is Choice.NAMED else None,
        is_parallel=given.disable_parallel_tool_use is not True,
    )


def _read_tools(given: Sequence[object], ignored: Ignored) -> tuple[Tool, ...]:
    check_sizes(given, "tools")
    definitions = []
    for index, each in enumerate(given):
        place = f"tools[{index}]"
        tool = convert(each, _Typed, place)
        if tool.type not in (None, "custom") and tool.input_schema is None:
            ignored.add("tool", tool.type)
        else:
            definitions.append((place, _definition(each, place)))
    return distinct_functions(definitions)


def _definition(given: object, place: str) -> dict[str, object]:
    tool = convert(given, AnthropicTool, place)
    for name in ("name", "input_schema"):
        if getattr(tool, name) is None:
            raise RequestError(f"{place}.{name} is missing", param=f"{place}.{name}")
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": tool.strict,
    }
