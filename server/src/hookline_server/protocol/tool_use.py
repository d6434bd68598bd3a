"""Which functions a request lets the model call, and how."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, NamedTuple, Protocol

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.tools import Tool, read_functions, read_tools
from hookline_server.protocol.wire import Name, convert


class Choice(Enum):
    """What the model may do with its tools."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The tools of one request.

    Attributes:
        tools: Those that the model is told of; none if it must not call any.
        choice: Whether it must call one.
        name: The function that it must call, with `Choice.NAMED`.
        is_parallel: Whether one reply may have several calls.
        is_legacy: Whether the client uses `functions` and `function_call`.
    """

    tools: tuple[Tool, ...] = ()
    choice: Choice = Choice.NONE
    name: str | None = None
    is_parallel: bool = True
    is_legacy: bool = False

    @property
    def choice_field(self) -> str:
        """The request's field with the choice."""
        return "function_call" if self.is_legacy else "tool_choice"


NO_TOOLS = ToolUse()

CHOICE_WORDS = ("none", "auto", "required")
"""Words of `tool_choice`."""

LEGACY_WORDS = ("none", "auto")
"""Words of `function_call`."""

MODES = ("auto", "required")
"""Words of `mode` in `allowed_tools`."""


class Chosen(NamedTuple):
    """What the field `tool_choice` says."""

    choice: Choice
    name: str | None
    """The function that it names."""
    tools: tuple[Tool, ...]
    """The tools that the model may still call."""


class ChatToolFields(Protocol):
    """The fields of a chat that concern tools, by new and former names."""

    @property
    def tools(self) -> list[object] | None: ...
    @property
    def tool_choice(self) -> object: ...
    @property
    def parallel_tool_calls(self) -> bool | None: ...
    @property
    def functions(self) -> list[object] | None: ...
    @property
    def function_call(self) -> object: ...


class NamedFunction(msgspec.Struct, frozen=True):
    """The function that the model must call."""

    name: Name


class NamedTool(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that the model must call."""

    type: Annotated[Name, bounds(const="function")] = "function"
    function: NamedFunction


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the model may call, and whether it must call one."""

    mode: Annotated[Name, bounds(enum=list(MODES))]
    tools: list[NamedTool]


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that the model must call, or those that it may."""

    type: Annotated[Name, bounds(enum=["function", "allowed_tools"])] = "function"
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None


def tool_use(request: ChatToolFields, ignored: Ignored) -> ToolUse:
    """Reads the tools of a request.

    Args:
        request: The request.
        ignored: Notes what is left out.

    Raises:
        LimitError: The tools are too many, too large or nested too deeply.
        RequestError: A field is wrong, or two of them contradict each other.
    """
    if request.functions:
        return _legacy_use(request, request.functions)
    if request.function_call not in (None, "none", "auto"):
        raise RequestError("function_call requires functions", param="function_call")
    tools = read_tools(request.tools or (), ignored)
    return use_of(_choice(request.tool_choice, tools), request.parallel_tool_calls)


def use_of(chosen: Chosen, parallel_tool_calls: bool | None) -> ToolUse:
    """Returns the tools that the request lets the model use."""
    if chosen.choice is Choice.NONE:
        return NO_TOOLS
    return ToolUse(
        tools=chosen.tools,
        choice=chosen.choice,
        name=chosen.name,
        is_parallel=parallel_tool_calls is not False,
    )


def _legacy_use(request: ChatToolFields, functions: Sequence[object]) -> ToolUse:
    if request.tools:
        raise RequestError(
            "specify either tools or functions, the former name", param="functions"
        )
    tools = read_functions(functions)
    given = request.function_call
    if given is None or isinstance(given, str):
        choice, name = word_choice(given, tools, LEGACY_WORDS, "function_call"), None
    else:
        name = convert(given, NamedFunction, "function_call").name
        choice = Choice.NAMED
        check_known(name, tools, "function_call.name")
    if choice is Choice.NONE:
        return NO_TOOLS
    return ToolUse(
        tools=tools, choice=choice, name=name, is_parallel=False, is_legacy=True
    )


def _choice(given: object, tools: tuple[Tool, ...]) -> Chosen:
    if given is None or isinstance(given, str):
        word = word_choice(given, tools, CHOICE_WORDS, "tool_choice")
        return Chosen(word, None, tools)
    choice = convert(given, ToolChoice, "tool_choice")
    if choice.type == "allowed_tools":
        mode, allowed = _allowed(choice.allowed_tools, tools)
        return Chosen(mode, None, allowed)
    if choice.type != "function":
        raise RequestError(
            "tool_choice.type must be 'function' or 'allowed_tools', not "
            f"{choice.type!r}",
            param="tool_choice.type",
        )
    name = convert(given, NamedTool, "tool_choice").function.name
    check_known(name, tools, "tool_choice.function.name")
    return Chosen(Choice.NAMED, name, tools)


def _allowed(
    given: AllowedTools | None, tools: Sequence[Tool]
) -> tuple[Choice, tuple[Tool, ...]]:
    """Returns the mode, and those of the tools that the model may call."""
    field = "tool_choice.allowed_tools"
    if given is None:
        raise RequestError(f"{field} is missing", param=field)
    check_mode(given.mode, field)
    names = [each.function.name for each in given.tools]
    for index, name in enumerate(names):
        check_known(name, tools, f"{field}.tools[{index}].function.name")
    allowed = tuple(tool for tool in tools if tool.name in set(names))
    if not allowed:
        raise RequestError(f"{field}.tools must not be empty", param=f"{field}.tools")
    return Choice(given.mode), allowed


def check_mode(mode: str, field: str) -> None:
    """Raises `RequestError` if the mode of allowed tools is unknown."""
    if mode not in MODES:
        raise RequestError(
            f"{field}.mode must be 'auto' or 'required', not {mode!r}",
            param=f"{field}.mode",
        )


def word_choice(
    given: str | None, tools: Sequence[Tool], words: Sequence[str], field: str
) -> Choice:
    """Returns the choice that a word means; raises `RequestError` for another word."""
    if given is not None and given not in words:
        raise RequestError(
            f"{field} must be one of {', '.join(words)} or name a function, not "
            f"{given[:64]!r}",
            param=field,
        )
    if given == "required" and not tools:
        raise RequestError("tool_choice 'required' requires tools", param=field)
    return Choice(given or "auto") if tools else Choice.NONE


def check_known(name: str, tools: Sequence[Tool], field: str) -> None:
    """Raises `RequestError` if a name is not that of a function."""
    if all(tool.name != name for tool in tools):
        raise RequestError(
            f"{field} is {name!r}, which is not among the request's functions",
            param=field,
        )
