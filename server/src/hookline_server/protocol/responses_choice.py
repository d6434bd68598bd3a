"""The field `tool_choice` of `/v1/responses`, and the tools that it leaves to use."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.call_forms import TOOL_SEARCH, joined_name
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.responses_tools import RequestTools
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.tool_use import (
    CHOICE_WORDS,
    MODES,
    Choice,
    Chosen,
    ToolUse,
    check_known,
    check_mode,
    use_of,
    word_choice,
)
from hookline_server.protocol.wire import Name, convert

_FIELD = "tool_choice"
_NAMED = ("function", "custom")
"""Types of tools that have names."""


class ChosenTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call; those of types without a name are left out."""

    type: Name = "function"
    name: Name | None = None
    namespace: Name | None = None


class ResponsesChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The tool that the model must call, or those that it may (`allowed_tools`).

    A tool that the server leaves out cannot be forced, and is no more than allowed.
    """

    type: Name
    name: Name | None = None
    namespace: Name | None = None
    mode: Annotated[Name, bounds(enum=list(MODES))] | None = None
    tools: list[ChosenTool] | None = None


def responses_tool_use(
    given: object,
    tools: RequestTools,
    ignored: Ignored,
    *,
    parallel_tool_calls: bool | None,
) -> ToolUse:
    """Returns which tools the model may use, and how.

    Args:
        given: The field `tool_choice`.
        tools: The request's tools.
        ignored: Gets a choice that only the tools that are left out could satisfy.
        parallel_tool_calls: Whether a reply may have several calls.

    Raises:
        RequestError: It is wrong, or names a tool that the request does not have.
    """
    return use_of(_chosen(given, tools, ignored), parallel_tool_calls)


def _chosen(given: object, tools: RequestTools, ignored: Ignored) -> Chosen:
    if given is None or isinstance(given, str):
        return _by_word(given, tools, ignored)
    choice = convert(given, ResponsesChoice, _FIELD)
    if choice.type == "allowed_tools":
        return _allowed(choice, tools, ignored)
    if choice.type not in _NAMED:
        if choice.type != TOOL_SEARCH or TOOL_SEARCH not in tools.forms.known:
            ignored.add("field", _FIELD)
            return _by_word("auto", tools, ignored)
        return Chosen(Choice.NAMED, TOOL_SEARCH, tools.tools)
    name = _model_name(choice.name or "", choice.namespace, tools, f"{_FIELD}.name")
    return Chosen(Choice.NAMED, name, tools.tools)


def _by_word(given: str | None, tools: RequestTools, ignored: Ignored) -> Chosen:
    if given == "required" and not tools.tools and tools.has_others:
        ignored.add("field", _FIELD)
        given = "auto"
    word = word_choice(given, tools.tools, CHOICE_WORDS, _FIELD)
    return Chosen(word, None, tools.tools)


def _allowed(choice: ResponsesChoice, tools: RequestTools, ignored: Ignored) -> Chosen:
    """Returns the mode, and those of the tools that the model may call."""
    mode = choice.mode or "auto"
    check_mode(mode, _FIELD)
    if not choice.tools:
        field = f"{_FIELD}.tools"
        raise RequestError(f"{field} must not be empty", param=field)
    names = _allowed_names(choice.tools, tools)
    allowed = tuple(tool for tool in tools.tools if tool.name in names)
    if not allowed:
        ignored.add("field", _FIELD)
        return Chosen(Choice.NONE, None, ())
    return Chosen(Choice(mode), None, allowed)


def _allowed_names(chosen: Sequence[ChosenTool], tools: RequestTools) -> set[str]:
    names: set[str] = set()
    for index, each in enumerate(chosen):
        field = f"{_FIELD}.tools[{index}].name"
        if each.type in _NAMED:
            names.add(_model_name(each.name or "", each.namespace, tools, field))
        elif each.type == "namespace":
            known = tools.forms.known.items()
            names |= {name for name, form in known if form.namespace == each.name}
        elif each.type == TOOL_SEARCH:
            names.add(TOOL_SEARCH)
    return names


def _model_name(
    name: str, namespace: str | None, tools: RequestTools, field: str
) -> str:
    found = tools.forms.model_name(name, namespace)
    if found is None:
        check_known(joined_name(namespace, name), tools.tools, field)
    return found or name
