"""Arguments that a model writes between tags, as JSON of the schema's types.

Nothing is evaluated: what is not JSON is text.
"""

import json
from collections.abc import Mapping

from hookline.reply_parsing.parts import CallArguments
from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_chat_formats.value_types import takes

_LITERALS = {"True": "true", "False": "false", "None": "null"}
"""Python's spelling, which models confuse with that of JSON."""


class ArgumentWriter:
    """Writes the arguments of one call as the JSON of an object, piece by piece."""

    def __init__(
        self,
        parser: SteppedToolParser,
        schema: Mapping[str, object],
        *,
        has_lines: bool,
    ) -> None:
        """Writes nothing yet.

        Args:
            parser: The parser, whose reader has the values.
            schema: JSON schema of the arguments.
            has_lines: Whether the line break after the opening tag, and that before the
                closing one, are not part of a value.
        """
        self._reader = parser.reader
        self._schema = schema
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, Mapping) else {}
        self._has_lines = has_lines
        self._written = 0

    def value(
        self, key: str, end: Markers, *, is_text: bool | None = None
    ) -> ToolSteps[bool]:
        """Writes a key and the value before the closing tag, which is read.

        Args:
            key: The key.
            end: The closing tag.
            is_text: Whether the value is text, and no JSON; None asks the schema.

        Returns:
            Whether the closing tag was reached.
        """
        comma = ", " if self._written else "{"
        self._written += 1
        start = f"{comma}{json.dumps(key, ensure_ascii=False)}: "
        if self._has_lines:
            yield from self._reader.accept("\n")
        if is_text or (is_text is None and _is_text(self._properties.get(key))):
            yield CallArguments(f'{start}"')
            return (yield from self._text(end))
        pieces, marker = [], None
        while marker is None and not self._reader.is_over:
            piece, marker = yield from self._reader.take(end)
            pieces.append(piece)
        if marker is not None:
            text = "".join(pieces).strip()
            yield CallArguments(start + self._as_json(key, text))
        return marker is not None

    def end(self) -> CallArguments:
        """Returns the end of the object."""
        return CallArguments("}" if self._written else "{}")

    def _as_json(self, key: str, text: str) -> str:
        """Returns a value as JSON; what is none, or is not of the schema, is text."""
        spelled, schema = _LITERALS.get(text, text), self._properties.get(key)
        try:
            value = json.loads(spelled, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return json.dumps(spelled, ensure_ascii=False)
        is_text = not takes(schema, value, self._schema)
        if is_text and takes(schema, text, self._schema):
            return json.dumps(text, ensure_ascii=False)
        return spelled

    def _text(self, end: Markers) -> ToolSteps[bool]:
        """Writes a text as it arrives."""
        line_end = ""
        while True:
            piece, marker = yield from self._reader.take(end)
            text, line_end = line_end + piece, ""
            is_cut = marker is None and self._reader.is_over
            if self._has_lines and text.endswith("\n") and not is_cut:
                text, line_end = text[:-1], "\n"
            if text:
                yield CallArguments(json.dumps(text, ensure_ascii=False)[1:-1])
            if marker is not None:
                yield CallArguments('"')
                return True
            if is_cut:
                return False


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
