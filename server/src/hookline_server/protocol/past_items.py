"""Calls that a client has run, and their results, among the items of a conversation.

The model knows each as a call of a function.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.call_forms import CUSTOM_INPUT, TOOL_SEARCH, joined_name
from hookline_server.protocol.content_parts import read_parts
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.past_calls import PastCalls
from hookline_server.protocol.responses_items import InputItem

T = TypeVar("T")

_CALLED: Mapping[str, Callable[[InputItem], tuple[str | None, object]]] = {
    "function_call": lambda item: (item.name, item.arguments),
    "custom_tool_call": lambda item: (item.name, {CUSTOM_INPUT: item.input or ""}),
    "tool_search_call": lambda item: (TOOL_SEARCH, item.arguments),
    "local_shell_call": lambda item: ("local_shell", item.action),
    "shell_call": lambda item: ("shell", item.action),
    "apply_patch_call": lambda item: ("apply_patch", item.operation),
}
"""Type of a call → its name and arguments."""


class PastItems:
    """Converts the calls of one conversation, and their results, for the template."""

    def __init__(self, ignored: Ignored) -> None:
        """Has seen no calls yet.

        Args:
            ignored: Gets what is left out.
        """
        self._ignored = ignored
        self._past_calls = PastCalls(ignored)
        self._waiting: dict[str, None] = {}

    def call(self, item: InputItem, place: str) -> dict[str, object]:
        """Converts a call.

        Raises:
            LimitError: The arguments have too many values, or are nested too deeply.
            RequestError: It has no id or no name.
        """
        call_id = _given(item.call_id or item.id, f"{place}.call_id")
        name, arguments = _CALLED[item.kind](item)
        function = {
            "name": joined_name(item.namespace, _given(name, f"{place}.name")),
            "arguments": self._past_calls.arguments(arguments, f"{place}.arguments"),
        }
        self._waiting[call_id] = None
        return {"id": call_id, "type": "function", "function": function}

    def result(self, item: InputItem, place: str) -> dict[str, object]:
        """Converts a result; one without an id is that of the first call without one.

        Raises:
            RequestError: It has no call.
        """
        call_id = item.call_id
        if call_id is None and item.kind == "local_shell_call_output":
            call_id = item.id
        if call_id is None and self._waiting:
            call_id = next(iter(self._waiting))
        call_id = _given(call_id, f"{place}.call_id")
        self._waiting.pop(call_id, None)
        return {
            "role": "tool",
            "content": self._output(item, f"{place}.output"),
            "tool_call_id": call_id,
        }

    def _output(self, item: InputItem, place: str) -> str:
        output = item.output
        if item.kind == "tool_search_output":
            return "Found: " + ", ".join(_names(item.tools or ()))
        if output is None and item.kind == "apply_patch_call_output":
            output = item.status
        if output is None:
            return ""  # as a tool's message without content
        if isinstance(output, str):
            return output
        if isinstance(output, list) and all(map(_is_part, output)):
            return read_parts(output, place, "tool", self._ignored).text
        return msgspec.json.encode(output).decode()


def _given(value: T | None, place: str) -> T:
    if value is None:
        raise RequestError(f"{place} is missing", param=place)
    return value


def _is_part(value: object) -> bool:
    return isinstance(value, dict) and "type" in value


def _names(tools: Sequence[object], namespace: str | None = None) -> Iterator[str]:
    """Yields the names for the model of tools that a search has found."""
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            continue
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            yield from _names(tool["tools"], name)
        else:
            yield joined_name(namespace, name)
