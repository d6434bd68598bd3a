"""Reads a call that is written as a JSON object with a name and arguments."""

from collections.abc import Callable, Container

from hookline_server.reply_parsing.json_scanner import JsonScanner
from hookline_server.reply_parsing.parts import CallArguments, CallBegun
from hookline_server.reply_parsing.reader import Reader, Waits, decoded_string
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_NAME_KEYS = ("name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters")
_OTHER_KEYS = ("id", "type")


class CallObject:
    """One such object: `{"name": "f", "arguments": {"a": 1}}`, in any order of keys."""

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
        self._has_begun = False

    def steps(self) -> ToolSteps[bool]:
        """Yields the call.

        Returns:
            Whether it was a call. If not, nothing was yielded, and the reader has
            recorded what was read.
        """
        if not (yield from self._reader.accept("{")):
            return False
        while True:
            yield from self._reader.skip_space()
            if (yield from self._reader.accept("}")):
                return (yield from self._end())
            if (yield from self._reader.accept(",")):
                continue
            key = yield from self._key()
            if key is None or not (yield from self._value(key)):
                return self._has_begun

    def _key(self) -> Waits[str | None]:
        key = yield from self._reader.json_string()
        yield from self._reader.skip_space()
        if key is None or not (yield from self._reader.accept(":")):
            return None
        yield from self._reader.skip_space()
        return key

    def _value(self, key: str) -> ToolSteps[bool]:
        """Reads a value; returns whether the object can still be a call."""
        if self._has_begun or key in _OTHER_KEYS:
            yield from _raw_value(self._reader)
            return True
        if key in _NAME_KEYS:
            self._name = yield from self._reader.json_string()
            if not self._name or _is_missing(self._name, self._names):
                return False
            if self._early is not None:
                yield self._begin()
                yield CallArguments(self._early)
            return True
        if key not in _ARGUMENT_KEYS:
            return False
        yield from self._arguments()
        return True

    def _arguments(self) -> ToolSteps[None]:
        character = yield from self._reader.peek()
        if self._name is not None and character == "{":
            yield self._begin()
            yield from self._parser.json_arguments()
            return
        arguments = yield from _raw_value(self._reader)
        if character == '"':  # JSON within a string
            arguments = decoded_string(arguments) or arguments
        self._early = "{}" if arguments in ("", "null") else arguments
        if self._name is not None and not self._reader.is_over:
            yield self._begin()
            yield CallArguments(self._early)

    def _end(self) -> ToolSteps[bool]:
        if self._has_begun:
            return True
        if self._name is None or self._needs_arguments:
            return False
        yield self._begin()
        yield CallArguments("{}")
        return True

    def _begin(self) -> CallBegun:
        assert self._name is not None
        self._has_begun = True
        return self._parser.begin_call(self._name, self._make_id())


def _is_missing(name: str, names: Container[str] | None) -> bool:
    return names is not None and name not in names


def _raw_value(reader: Reader) -> Waits[str]:
    """Reads a whole JSON value, or skips it."""
    scanner, pieces = JsonScanner(), []
    while not (scanner.is_done or reader.is_over):
        pieces.append((yield from reader.take_json(scanner)))
    return "".join(pieces)
