"""Function calls in a conversation's history."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import TOOL_CALL_DEPTH, TOOL_CALL_VALUES
from hookline_server.protocol.body_structure import count, depth
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.wire import Name, convert

_FEW_VALUES = TOOL_CALL_DEPTH.most
"""Up to this many values in all calls together, nothing needs to be checked."""


class PastFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the assistant called; arguments are JSON, or its text."""

    name: Name
    arguments: str | dict[str, object] | None = None


class PastCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the assistant."""

    id: Name | None = None
    type: Annotated[Name, bounds(const="function")] = "function"
    function: Annotated[dict[str, object], held(PastFunction)]


class PastCalls:
    """Converts the calls of one conversation for its chat template."""

    def __init__(self) -> None:
        self._values = 0

    def calls(self, given: Sequence[object], place: str) -> list[dict[str, object]]:
        """Converts `tool_calls` of a message.

        Templates get arguments as objects. Those that are not the JSON of an object, as
        a model may have written them, are passed on as they are.

        Raises:
            LimitError: The arguments have too many values, or are nested too deeply.
            RequestError: One is not a call of a function.
        """
        return [
            self._call(each, f"{place}[{index}]") for index, each in enumerate(given)
        ]

    def legacy_call(self, given: object, place: str) -> list[dict[str, object]]:
        """Converts `function_call` of a message; raises what `calls` does."""
        function = self.function(convert(given, PastFunction, place), place)
        return [{"type": "function", "function": function}]

    def _call(self, given: object, place: str) -> dict[str, object]:
        call = convert(given, PastCall, place)
        if call.type != "function":
            raise RequestError(
                f"{place}.type must be 'function', not {call.type!r}",
                param=f"{place}.type",
            )
        here = f"{place}.function"
        function = self.function(convert(call.function, PastFunction, here), here)
        named: dict[str, object] = {} if call.id is None else {"id": call.id}
        return {**named, "type": "function", "function": function}

    def function(self, function: PastFunction, place: str) -> dict[str, object]:
        """Converts the function of a call; may raise `LimitError`."""
        arguments: object = function.arguments
        param = f"{place}.arguments"
        if isinstance(arguments, str):
            self.check(arguments.encode(), param)
            arguments = _parsed(arguments)
        elif arguments:
            self.check(msgspec.json.encode(arguments), param)
        return {"name": function.name, "arguments": arguments or {}}

    def check(self, arguments: bytes, param: str) -> None:
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


def _parsed(arguments: str) -> object:
    try:
        parsed = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) or parsed is None else arguments
