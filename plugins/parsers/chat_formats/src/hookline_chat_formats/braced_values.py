"""Arguments in braces without JSON's quotes, as JSON of the schema's types: Gemma.

Texts have delimiters of their own, within which everything is text; keys are bare.
"""

import json
from collections.abc import Callable, Mapping

from hookline_chat_formats.typed_values import as_json
from hookline_chat_formats.value_types import member_schema, takes
from hookline_server.reply_parsing.parts import CallArguments, Content
from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_STRAY = " \t\r\n{}[](),:"
DEEPEST = 64
"""Maximum levels of lists and objects; deeper ones are null."""


class BracedArguments:
    """The arguments of one call: `{city:<|"|>Paris<|"|>,days:3}`."""

    def __init__(
        self,
        parser: SteppedToolParser,
        schema: Mapping[str, object],
        *,
        delimiter: str,
        ends: tuple[str, ...],
        closer: str = "}",
    ) -> None:
        """Reads nothing yet.

        Args:
            parser: The parser, whose reader is behind the opening brace.
            schema: JSON schema of the arguments.
            delimiter: What begins and ends a text.
            ends: What ends the call, also where a delimiter or brace is missing.
            closer: The closing brace.
        """
        self._reader = parser.reader
        self._root = schema
        self._delimiter = delimiter
        self._ends = ends
        self._closer = closer
        self._key_ends = Markers(":", ",", closer, *ends)
        self._text_ends = Markers(delimiter, *ends)
        self._word_ends = Markers(*dict.fromkeys((",", "}", "]", closer, *ends)))
        self._passed: str | None = None  # what ended the last value, if it was read
        self._words: list[str] = []  # what is no argument

    def steps(self) -> ToolSteps[None]:
        """Yields the arguments, reads the closing brace, and yields what is neither."""
        yield from self._members(self._root, DEEPEST, self._closer)
        if self._words:
            yield Content("".join(self._words))

    def _members(
        self, schema: object, levels: int, closer: str = "}"
    ) -> ToolSteps[None]:
        start = "{"
        while not (yield from self._has_ended(closer)):
            key = yield from self._key()
            if key is None:
                continue
            yield CallArguments(f"{start}{json.dumps(key, ensure_ascii=False)}: ")
            start = ", "
            yield from self._value(member_schema(schema, key, self._root), levels)
        if start == "{":
            yield CallArguments("{}")
        elif not self._reader.is_over or self._passed is not None:
            yield CallArguments("}")

    def _items(self, schema: object, levels: int) -> ToolSteps[None]:
        start = "["
        while not (yield from self._has_ended("]")):
            yield CallArguments(start)
            start = ", "
            yield from self._value(schema, levels)
        if start == "[":
            yield CallArguments("[]")
        elif not self._reader.is_over or self._passed is not None:
            yield CallArguments("]")

    def _has_ended(self, closer: str) -> Waits[bool]:
        """Reads what closes an object or a list; True also where that is missing."""
        passed, self._passed = self._passed, None
        if passed == closer:
            return True
        outer = self._ends
        if closer == "]":
            outer = (*outer, "}", self._closer)
        if passed in outer:
            self._passed = passed
            return True
        yield from self._reader.skip_space()
        while (yield from self._reader.accept(",")):
            yield from self._reader.skip_space()
        if (yield from self._reader.accept(closer)):
            return True
        for end in outer:
            if (yield from self._reader.is_at(end)):
                return True
        return self._reader.is_over

    def _key(self) -> Waits[str | None]:
        """Reads a key and its colon, or what is no key: words are content later."""
        key = yield from self._reader.json_string()
        if key is None and (yield from self._reader.accept(self._delimiter)):
            key = yield from self._reader.before(self._text_ends)
            yield from self._reader.accept(self._delimiter)
        if key is None:
            key = yield from self._reader.before(self._key_ends)
        text = key or ""
        if key is None:
            text = "".join((yield from self._until(self._key_ends)))
        yield from self._reader.skip_space()
        if key is not None and (yield from self._reader.accept(":")):
            return key.strip()
        if text.strip(_STRAY):
            self._words.append(text)
        return None

    def _value(self, schema: object, levels: int) -> ToolSteps[None]:
        yield from self._reader.skip_space()
        if (yield from self._reader.accept(self._delimiter)):
            yield from self._text(schema)
        elif (yield from self._reader.accept("{")):
            yield from self._nested(self._members, schema, levels)
        elif (yield from self._reader.accept("[")):
            items = member_schema(schema, None, self._root)
            yield from self._nested(self._items, items, levels)
        elif (quoted := (yield from self._reader.json_string())) is not None:
            yield CallArguments(self._as_json(quoted, schema))
        else:
            pieces = yield from self._until(self._word_ends)
            word = "".join(pieces).strip()
            yield CallArguments(as_json(word, schema, self._root))

    def _nested(
        self,
        read: Callable[[object, int], ToolSteps[None]],
        schema: object,
        levels: int,
    ) -> ToolSteps[None]:
        """Yields an object or a list, unless it is too deep."""
        if levels:
            yield from read(schema, levels - 1)
        else:
            yield CallArguments("null")

    def _text(self, schema: object) -> ToolSteps[None]:
        """Yields a text as it arrives, or what it stands for where none is wanted."""
        if not takes(schema, "", self._root):
            pieces = yield from self._until(self._text_ends)
            yield CallArguments(self._as_json("".join(pieces), schema))
            return
        yield CallArguments('"')
        marker = None
        while marker is None and not self._reader.is_over:
            piece, marker = yield from self._reader.read_until(self._text_ends)
            if piece:
                yield CallArguments(json.dumps(piece, ensure_ascii=False)[1:-1])
        self._note(marker)
        if marker is not None:
            yield CallArguments('"')

    def _until(self, ends: Markers) -> Waits[list[str]]:
        """Reads the pieces of a value up to what ends it, which is read, too."""
        pieces: list[str] = []
        marker = None
        while marker is None and not self._reader.is_over:
            piece, marker = yield from self._reader.read_until(ends)
            pieces.append(piece)
        self._note(marker)
        return pieces

    def _note(self, marker: str | None) -> None:
        self._passed = None if marker == self._delimiter else marker

    def _as_json(self, text: str, schema: object) -> str:
        """Returns a text as JSON: as text, unless the schema accepts none."""
        if takes(schema, text, self._root):
            return json.dumps(text, ensure_ascii=False)
        return as_json(text, schema, self._root)
