"""Reads a call that is written as a JSON object with a name and arguments."""

import json
from collections.abc import Callable, Container

from hookline_metrics.front_end_parts import RepairKind
from hookline_server.reply_parsing.json_mender import JsonMender
from hookline_server.reply_parsing.parts import CallArguments, Content, Repair
from hookline_server.reply_parsing.reader import Reader, Waits, decoded_string
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_NAME_KEYS = ("name", "function", "function_name", "tool_name", "tool")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input")
_NESTED_KEYS = ("function", "tool_call", "function_call")
_OTHER_KEYS = ("id", "type", "index", "tool_call_id")


class CallObject:
    """One such object: `{"name": "f", "arguments": {"a": 1}}`, in any order of keys.

    What models write instead is understood: the object of an API's request, with
    another object in its `function` and arguments in a string; Python's quotes; other
    names of the keys. After a tag the arguments may also stand beside the name, or be
    the value of the name.
    """

    def __init__(
        self,
        parser: SteppedToolParser,
        *,
        names: Container[str] | None = None,
        needs_arguments: bool = False,
        make_id: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Reads nothing yet.

        Args:
            parser: The parser, whose reader is at the object.
            names: Functions that count as calls; None accepts any name.
            needs_arguments: Whether a call must have arguments.
            make_id: Makes the call's id.
        """
        self._parser = parser
        self._reader = parser.reader
        self._names = names
        self._needs_arguments = needs_arguments
        self._make_id = make_id
        self._name: str | None = None
        self._early: str | None = None
        self._others: list[str] = []  # members that may be arguments
        self._slips: list[RepairKind] = []
        self._has_begun = False

    def steps(self, *, is_open: bool = False) -> ToolSteps[bool]:
        """Yields the call.

        Args:
            is_open: Whether its first brace was read.

        Returns:
            Whether it was a call. If not, nothing was yielded, and the reader has
            recorded what was read.
        """
        if not is_open and not (yield from self._reader.accept("{")):
            return False
        if (yield from self._members()) or self._reader.is_cut:
            yield from self._end()
        return self._has_begun

    def _members(self) -> ToolSteps[bool]:
        """Reads the rest of an object; returns whether it ended and can be a call."""
        while True:
            yield from self._reader.skip_space()
            if (yield from self._reader.accept("}")):
                return True
            if (yield from self._reader.accept(",")):
                continue
            key = yield from self._key()
            if key is None or not (yield from self._value(key)):
                return False

    def _key(self) -> Waits[str | None]:
        if (yield from self._reader.peek()) == "'":
            self._slips.append("quote")
        key = yield from self._reader.json_string()
        yield from self._reader.skip_space()
        if key is None or not (yield from self._reader.accept(":")):
            return None
        yield from self._reader.skip_space()
        return key

    def _value(self, key: str) -> ToolSteps[bool]:
        """Reads a value; returns whether the object can still be a call."""
        character = yield from self._reader.peek()
        if self._has_begun or key in _OTHER_KEYS:
            value = yield from _raw_value(self._reader)
            if self._has_begun and self._reader.is_over:
                yield Content(value)  # a string without an end, and all behind it
        elif key in _NESTED_KEYS and character == "{":
            self._slips.append("markup")
            yield from self._reader.accept("{")
            return (yield from self._members())
        elif key in _NAME_KEYS and character in ("'", '"'):
            return (yield from self._named())
        elif key in _ARGUMENT_KEYS:
            yield from self._arguments(character)
        elif self._names is not None or not character:
            return False
        elif character == "{" and self._name is None and self._parser.known(key):
            self._slips.append("markup")
            self._name = key
            yield from self._arguments(character)
        else:
            value = yield from _raw_value(self._reader)
            self._others.append(f"{json.dumps(key, ensure_ascii=False)}: {value}")
        return True

    def _named(self) -> ToolSteps[bool]:
        name = yield from self._reader.json_string()
        if not name:
            return False
        known = self._parser.known(name)
        if self._names is not None and known not in self._names:
            return False
        self._name = known or name
        if self._early is not None:
            yield from self._begin()
            yield CallArguments(self._early)
        return True

    def _arguments(self, character: str) -> ToolSteps[None]:
        if self._name is not None and character == "{":
            yield from self._begin()
            yield from self._parser.json_arguments()
            return
        arguments = yield from _raw_value(self._reader)
        if not arguments.strip():
            return
        if character in ("'", '"'):  # JSON within a string
            self._slips.append("shape")
            arguments = decoded_string(arguments)
        self._early = "{}" if arguments in ("null", "None") else arguments
        if self._name is not None and not self._reader.is_over:
            yield from self._begin()
            yield CallArguments(self._early)

    def _end(self) -> ToolSteps[None]:
        if self._has_begun or self._name is None:
            return
        if self._needs_arguments and not self._reader.is_cut:
            return
        if self._early is not None:
            yield from self._begin()
            yield CallArguments(self._early)
            return
        if self._others:
            if self._parser.known(self._name) is None:
                return
            self._slips.append("markup")
        yield from self._begin()
        yield CallArguments(f"{{{', '.join(self._others)}}}")

    def _begin(self) -> ToolSteps[None]:
        assert self._name is not None
        self._has_begun = True
        yield self._parser.begin_call(self._name, self._make_id())
        for kind in self._slips:
            yield Repair(kind)


def _raw_value(reader: Reader) -> Waits[str]:
    """Reads a whole JSON value, or skips it."""
    mender, pieces = JsonMender(), []
    while not (mender.is_done or reader.is_over):
        pieces.append((yield from reader.take_json(mender)))
    return "".join(pieces)
