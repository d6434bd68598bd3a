"""The tools of `/v1/responses`, each of which the model knows as a function.

Those of namespaces and custom ones become functions, and clients get their calls in the
form that they expect. What only OpenAI's servers could run is left out.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import TOOLS
from hookline_server.protocol.call_forms import (
    CUSTOM_INPUT,
    TOOL_SEARCH,
    CallForm,
    CallForms,
    CallKind,
    call_forms,
    joined_name,
)
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.responses_items import MORE_TOOLS, Placed
from hookline_server.protocol.schema_notes import held
from hookline_server.protocol.tools import Tool, check_sizes, read_function
from hookline_server.protocol.wire import Name, convert

_KINDS: Mapping[str, CallKind] = {
    "function": "function_call",
    "custom": "custom_tool_call",
    TOOL_SEARCH: "tool_search_call",
}
"""Type of a tool that becomes a function → type of the items of its calls."""

_ADDING = (MORE_TOOLS, "tool_search_output")
"""Types of items that add tools."""

_MALFORMED = (
    *("missing )", "unbalanced parenthesis", "unterminated character set"),
    *("nothing to repeat", "min repeat greater", "bad escape (end of pattern)"),
)
"""What no dialect of regular expressions takes, in Python's words."""

_END_OF_PATTERN = re.compile(r"(?<!\\)(?:\\\\)*\$$")


class CustomFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the input of a custom tool has to match."""

    type: Name
    syntax: Name | None = None
    definition: str | None = None


FREE_TEXT = CustomFormat(type="text")


class ResponsesTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: `function`, `custom`, `namespace`, or the client's `tool_search`.

    Tools of all other types are left out. A function may also have the form that it has
    in a chat.
    """

    type: Name
    name: str | None = None
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    format: CustomFormat | None = None
    tools: list[object] | None = None
    execution: Name | None = None
    function: dict[str, object] | None = None


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: Name


class EchoedTool(msgspec.Struct, frozen=True, kw_only=True, tag="function"):
    """A function that the model may call."""

    name: str
    description: str | None
    parameters: dict[str, object]
    strict: bool


class EchoedCustomTool(msgspec.Struct, frozen=True, kw_only=True, tag="custom"):
    """A tool of one text that the model may call."""

    name: str
    description: str | None
    format: CustomFormat


class EchoedToolSearch(msgspec.Struct, frozen=True, kw_only=True, tag=TOOL_SEARCH):
    """The client's search for further tools."""

    description: str | None
    execution: Literal["client"] = "client"
    parameters: dict[str, object]


class EchoedNamespace(msgspec.Struct, frozen=True, kw_only=True, tag="namespace"):
    """Tools that share a namespace."""

    name: str
    description: str
    tools: list[EchoedTool | EchoedCustomTool]


Echoed = EchoedTool | EchoedCustomTool | EchoedToolSearch | EchoedNamespace
ToolList = list[Annotated[object, held(ResponsesTool)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTools:
    """The tools of one request.

    Attributes:
        tools: Those that the model may know.
        forms: How the client knows them.
        echoed: Those of the request's field, as the response repeats them.
        has_others: Whether the field has tools that were left out.
    """

    tools: tuple[Tool, ...]
    forms: CallForms
    echoed: list[Echoed]
    has_others: bool


def read_tools(
    given: Sequence[object], items: Iterable[Placed], ignored: Ignored
) -> RequestTools:
    """Reads the tools of a request, and those that items of its input add.

    Args:
        given: The field `tools`.
        items: The input; tools that it adds replace others of the same name.
        ignored: Gets the tools that are left out.

    Raises:
        LimitError: The tools are too many, too large or nested too deeply.
        RequestError: One is wrong, or two of the field have the same name.
    """
    added = [
        (f"{place}.tools", item.tools)
        for place, item in items
        if item.tools and item.kind in _ADDING
    ]
    check_sizes([*given, *(each for _, tools in added for each in tools)], "tools")
    reader = _ToolReader(ignored)
    echoed = [
        each
        for index, tool in enumerate(given)
        if (each := reader.add(tool, f"tools[{index}]")) is not None
    ]
    reader.let_replace()
    for place, tools in added:
        for index, tool in enumerate(tools):
            reader.add(tool, f"{place}[{index}]")
    TOOLS.check(len(reader.tools), param="tools")
    return RequestTools(
        tools=tuple(reader.tools.values()),
        forms=call_forms(reader.forms),
        echoed=echoed,
        has_others=reader.has_others,
    )


class _ToolReader:
    """Collects the tools of one request.

    Attributes:
        tools: Name for the model → tool.
        forms: Name for the model → form of its calls.
        has_others: Whether a tool was left out.
    """

    def __init__(self, ignored: Ignored) -> None:
        self.tools: dict[str, Tool] = {}
        self.forms: dict[str, CallForm] = {}
        self.has_others = False
        self._is_adding = False
        self._ignored = ignored

    def let_replace(self) -> None:
        """From now on, tools replace others of the same name."""
        self._is_adding = True

    def add(self, given: object, place: str) -> Echoed | None:
        """Adds a tool or a namespace; returns None for one that is left out."""
        tool = self._read(given, place)
        if tool is None:
            return None
        if tool.type == "namespace":
            return self._add_namespace(tool, place)
        return self._add_tool(tool, place)

    def _read(self, given: object, place: str) -> ResponsesTool | None:
        """Returns a tool; None if the server cannot run it, whatever its fields are."""
        kind = convert(given, _Typed, place).type
        if kind == "namespace" or kind in _KINDS:
            tool = convert(given, ResponsesTool, place)
            if tool.name is None and tool.function is not None:  # as in a chat
                function = {**tool.function, "type": kind}
                tool = convert(function, ResponsesTool, f"{place}.function")
            if kind != TOOL_SEARCH or _is_run_by_client(tool):
                return tool
        self._ignored.add("tool", kind)
        self.has_others = True
        return None

    def _add_namespace(self, given: ResponsesTool, place: str) -> EchoedNamespace:
        name = _named(given, place)
        # The model knows no namespaces: the first tool tells what this one is for.
        preface = f"{name}: {given.description}\n\n" if given.description else ""
        echoed = []
        for index, each in enumerate(given.tools or ()):
            here = f"{place}.tools[{index}]"
            tool = self._read(each, here)
            if tool is None:
                continue
            if tool.type == "namespace":  # one within another
                self._ignored.add("tool", tool.type)
                continue
            added = self._add_tool(tool, here, namespace=name, preface=preface)
            if isinstance(added, EchoedTool | EchoedCustomTool):
                echoed.append(added)
                preface = ""
        return EchoedNamespace(
            name=name, description=given.description or "", tools=echoed
        )

    def _add_tool(
        self,
        given: ResponsesTool,
        place: str,
        *,
        namespace: str | None = None,
        preface: str = "",
    ) -> Echoed:
        tool = read_function(_definition(given, place), place)
        name = joined_name(namespace, tool.name)
        if name in self.tools and not self._is_adding:
            raise RequestError(
                f"{place}.name {tool.name!r} is the name of another function, too",
                param=f"{place}.name",
            )
        if given.defer_loading and namespace is None and not self._is_adding:
            # So OpenAI's servers call a function that their search has found.
            namespace = tool.name
        description = preface + tool.description
        self.tools[name] = replace(tool, name=name, description=description)
        self.forms[name] = CallForm(tool.name, namespace, _KINDS[given.type])
        return _echoed(given, tool)


def _is_run_by_client(search: ResponsesTool) -> bool:
    return search.parameters is not None and search.execution != "server"


def _named(tool: ResponsesTool, place: str) -> str:
    if not tool.name:
        raise RequestError(f"{place}.name is missing", param=f"{place}.name")
    return tool.name


def _definition(tool: ResponsesTool, place: str) -> dict[str, object]:
    """Returns the definition of the function that a tool becomes."""
    is_search, is_custom = tool.type == TOOL_SEARCH, tool.type == "custom"
    form = tool.format or FREE_TEXT
    if is_custom and form.syntax == "regex":
        _check_pattern(form.definition or "", tool.name, f"{place}.format.definition")
    return {
        "name": TOOL_SEARCH if is_search else _named(tool, place),
        "description": _description(tool, form) if is_custom else tool.description,
        "parameters": _input_schema(form) if is_custom else tool.parameters,
        "strict": tool.strict and not is_custom,
    }


def _description(tool: ResponsesTool, form: CustomFormat) -> str:
    """Returns the description of a custom tool, which tells its grammar."""
    description = tool.description or ""
    if form.definition is None:
        return description
    syntax = form.syntax or "grammar"
    grammar = f"The input matches this {syntax}:\n{form.definition}"
    return f"{description}\n\n{grammar}" if description else grammar


def _check_pattern(pattern: str, name: str | None, place: str) -> None:
    """Checks that a pattern can be one; backends may know more dialects than Python.

    Raises:
        RequestError: It is none.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except re.error as error:
        if error.msg.startswith(_MALFORMED):
            raise RequestError(
                f"{place}: the format of the custom tool {name!r} is no regular "
                f"expression: {error}",
                param=place,
            ) from error
    except (OverflowError, RecursionError):
        pass  # too much for Python


def _input_schema(form: CustomFormat) -> dict[str, object]:
    text: dict[str, object] = {
        "type": "string",
        "description": "The whole input of the tool, as text.",
    }
    if form.syntax == "regex" and form.definition:
        text["pattern"] = _whole(form.definition)
    return {
        "type": "object",
        "properties": {CUSTOM_INPUT: text},
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }


def _whole(pattern: str) -> str:
    """Returns a pattern that matches whole texts, which JSON schemas only search."""
    pattern = pattern.removeprefix("^")
    if _END_OF_PATTERN.search(pattern):
        pattern = pattern[:-1]
    return f"^(?:{pattern})$" if "|" in pattern else f"^{pattern}$"


def _echoed(given: ResponsesTool, tool: Tool) -> Echoed:
    description = given.description or None
    match given.type:
        case "custom":
            return EchoedCustomTool(
                name=tool.name,
                description=description,
                format=given.format or FREE_TEXT,
            )
        case "tool_search":
            return EchoedToolSearch(description=description, parameters=tool.parameters)
        case _:
            return EchoedTool(
                name=tool.name,
                description=description,
                parameters=tool.parameters,
                strict=tool.strict,
            )
