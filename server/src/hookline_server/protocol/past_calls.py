"""Function calls in a conversation's history."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import TOOL_CALL_DEPTH, TOOL_CALL_VALUES
from hookline_server.protocol.body_structure import count, depth
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.wire import MALFORMED, Name, convert

_FEW_VALUES = TOOL_CALL_DEPTH.most
"""Up to this many values in all calls together, nothing needs to be checked."""

_ARGUMENTS = msgspec.Meta(extra_json_schema={"type": ["string", "object", "null"]})


class PastFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the assistant called; arguments are JSON, or its text."""

    name: str
    arguments: Annotated[object, _ARGUMENTS] = None


class PastCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the assistant."""

    id: str | None = None
    type: Annotated[Name, bounds(const="function")] = "function"
    function: Annotated[dict[str, object], held(PastFunction)] | None = None


class PastCalls:
    """Converts the calls of one conversation for its chat template.

    What a model has written is taken as it is: names of any length, and arguments that
    are no JSON.
    """

    def __init__(self, ignored: Ignored) -> None:
        """Notes what is left out of the calls."""
        self._ignored = ignored
        self._values = 0

    def calls(self, given: Sequence[object], place: str) -> list[dict[str, object]]:
        """Converts `tool_calls` of a message; those of no function are left out.

        Raises:
            LimitError: The arguments have too many values, or are nested too deeply.
            RequestError: One has not the form of a call.
        """
        calls = (
            self._call(each, f"{place}[{index}]") for index, each in enumerate(given)
        )
        return [call for call in calls if call is not None]

    def legacy_call(self, given: object, place: str) -> list[dict[str, object]]:
        """Converts `function_call` of a message; raises what `calls` does."""
        function = self.function(convert(given, PastFunction, place), place)
        return [{"type": "function", "function": function}]

    def _call(self, given: object, place: str) -> dict[str, object] | None:
        call = convert(given, PastCall, place)
        here = f"{place}.function"
        if call.function is None:
            if call.type == "function":
                raise RequestError(f"{here} is missing", param=here)
            self._ignored.add("call", call.type)
            return None
        function = self.function(convert(call.function, PastFunction, here), here)
        named: dict[str, object] = {} if call.id is None else {"id": call.id}
        return {**named, "type": "function", "function": function}

    def function(self, function: PastFunction, place: str) -> dict[str, object]:
        """Converts the function of a call; may raise `LimitError`."""
        arguments = self.arguments(function.arguments, f"{place}.arguments")
        return {"name": function.name, "arguments": arguments}

    def arguments(self, given: object, param: str) -> dict[str, object]:
        """Returns the arguments of a call as an object, over which templates iterate.

        Those that are none, as they were cut, or as a model may have written them, are
        left out.

        Args:
            given: An object, or the text of one.
            param: The request's field, for errors.

        Raises:
            LimitError: They have too many values, or are nested too deeply.
        """
        if isinstance(given, dict):
            try:
                given = _sendable(given)
            except RecursionError:
                TOOL_CALL_DEPTH.check(sys.getrecursionlimit(), param=param)
            self._check(msgspec.json.encode(given), param)
            return given
        value = given
        for _ in range(2):  # some clients encode them twice
            if isinstance(value, str):
                self._check(value.encode("utf-8", "replace"), param)
                value = _parsed(value)
        if isinstance(value, dict):
            return _sendable(value)
        if value is not None:
            self._ignored.add("call", "arguments")
        return {}

    def _check(self, arguments: bytes, param: str) -> None:
        """Checks what a call's arguments cost, before anything is parsed.

        Raises:
            LimitError: All calls so far have too many values, or these are nested too
                deeply.
        """
        most = sum(map(arguments.count, (b",", b"[", b"{"))) + 1
        if self._values + most <= _FEW_VALUES:  # wherever those characters stand
            self._values += most
            return
        counts = count(arguments)
        self._values += counts.values
        TOOL_CALL_VALUES.check(self._values, param=param)
        if counts.containers > TOOL_CALL_DEPTH.most:
            levels = depth(arguments, TOOL_CALL_DEPTH.most + 1)
            TOOL_CALL_DEPTH.check(levels, param=param)


def _sendable(arguments: dict[str, object]) -> dict[str, object]:
    """Returns arguments that fit into a message for a text process, as most do."""
    try:
        msgspec.msgpack.encode(arguments)
    except (UnicodeEncodeError, OverflowError):
        return {_whole(name): _replaced(each) for name, each in arguments.items()}
    return arguments


def _replaced(value: object) -> object:
    """Replaces halves of characters, and integers beyond 64 bits by their text."""
    match value:
        case str():
            return _whole(value)
        case int() if not -(2**63) <= value < 2**64:
            return str(value)
        case list():
            return [_replaced(each) for each in value]
        case dict():
            return {_whole(name): _replaced(each) for name, each in value.items()}
        case _:
            return value


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _parsed(arguments: str) -> object:
    """Returns the value of JSON, None of no text, and what is no JSON as it is."""
    if not arguments or arguments.isspace():
        return None
    try:
        return msgspec.json.decode(arguments)
    except MALFORMED:
        pass
    try:  # allows line breaks in strings, and halves of characters
        return json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
