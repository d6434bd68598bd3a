"""Arguments that a model writes between tags, as JSON of the schema's types.

Nothing is evaluated: whatever is neither JSON nor a Python literal is text.
"""

import json
from collections.abc import Iterator, Mapping

from hookline_chat_formats.python_literal import json_of
from hookline_chat_formats.value_types import takes
from hookline_server.reply_parsing.parts import CallArguments
from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_SECTION, _SECTION_END = "<![CDATA[", Markers("]]>")
_LITERALS = {"True": "true", "False": "false", "None": "null"}
"""Python's spelling, which models confuse with JSON's."""


class ArgumentWriter:
    """Writes the arguments of one call as the JSON of an object, piece by piece."""

    def __init__(
        self,
        parser: SteppedToolParser,
        schema: Mapping[str, object],
        *,
        has_lines: bool,
        has_sections: bool = False,
        ends: Mapping[str, tuple[str, ...]],
        word_end: str = "",
    ) -> None:
        """Writes nothing yet.

        Args:
            parser: The parser, whose reader has the values.
            schema: JSON schema of the arguments.
            has_lines: Whether the line break after the opening tag, and that before the
                closing one, are not part of a value.
            has_sections: Whether a value may be a section of XML, `<![CDATA[…]]>`.
            ends: What ends a value, first its closing tag, then others, and what may
                come after it and white space, beside the end of the text; anything if
                that is empty. Before anything else a tag is part of the value.
            word_end: May come after a tag that ends a value and a word; none if empty.
        """
        self._reader = parser.reader
        self._schema = schema
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, Mapping) else {}
        self._has_lines = has_lines
        self._has_sections = has_sections
        self._followers = ends
        self._ends = Markers(*ends)
        self._close = next(iter(ends))
        self._word_end = word_end
        self._written = 0

    def value(self, key: str, *, is_text: bool | None = None) -> ToolSteps[str | None]:
        """Writes a key and the value before what ends it, which is read.

        Args:
            key: The key.
            is_text: Whether the value is text, and no JSON; None asks the schema.

        Returns:
            Which of these ended it; None if the text ended first.
        """
        comma = ", " if self._written else "{"
        self._written += 1
        start = f"{comma}{json.dumps(key, ensure_ascii=False)}: "
        if self._has_lines:
            yield from self._reader.accept("\n")
        if self._has_sections and (yield from self._reader.accept(_SECTION)):
            return (yield from self._section(start))
        if is_text or (is_text is None and _is_text(self._properties.get(key))):
            yield CallArguments(f'{start}"')
            return (yield from self._text())
        pieces, marker = [], None
        while marker is None and not self._reader.is_over:
            piece, marker = yield from self._take()
            pieces.append(piece)
        text = "".join(pieces)
        if marker is not None or text.strip():
            if self._has_lines or marker != self._close:
                text = text.removesuffix("\n")
            schema = self._properties.get(key)
            yield CallArguments(start + as_json(text, schema, self._schema))
        return marker

    def _section(self, start: str) -> ToolSteps[str | None]:
        """Writes a section, which is text, and reads the tag behind it."""
        yield CallArguments(f'{start}"')
        marker = None
        while marker is None and not self._reader.is_over:
            piece, marker = yield from self._reader.read_until(_SECTION_END)
            yield CallArguments(json.dumps(piece, ensure_ascii=False)[1:-1])
        yield CallArguments('"')
        yield from self._reader.skip_space()
        for end in self._followers:
            if (yield from self._reader.accept(end)):
                return end
        return None

    def closing_brace(self) -> CallArguments:
        """Returns the end of the object."""
        return CallArguments("}" if self._written else "{}")

    def _take(self) -> Waits[tuple[str, str | None]]:
        """Reads more of a value, and the marker if it was reached and ends it."""
        text, marker = yield from self._reader.read_until(self._ends)
        if marker is None or not self._followers[marker]:
            return text, marker
        self._reader.record()
        yield from self._reader.skip_space()
        space = self._reader.recorded()
        for follower in self._followers[marker]:
            if (yield from self._reader.is_at(follower)):
                return text, marker
        is_end = self._reader.is_over or (
            bool(self._word_end) and (yield from self._reader.is_word(self._word_end))
        )
        if is_end:
            return text, marker
        return text + marker + space, None

    def _text(self) -> ToolSteps[str | None]:
        """Writes a text as it arrives."""
        line_end = ""
        while True:
            piece, marker = yield from self._take()
            text, line_end = line_end + piece, ""
            is_cut = marker is None and self._reader.is_over
            has_line_end = self._has_lines or marker not in (None, self._close)
            if text.endswith("\n") and not is_cut and (marker is None or has_line_end):
                text, line_end = text[:-1], "\n"
            if text:
                yield CallArguments(json.dumps(text, ensure_ascii=False)[1:-1])
            if marker is not None:
                yield CallArguments('"')
                return marker
            if is_cut:
                return None


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def as_json(text: str, schema: object, root: Mapping[str, object]) -> str:
    """Returns what a model wrote for a value of a schema as JSON.

    A value that the schema does not accept in any spelling stays the JSON that the
    model wrote, or text; the client may judge it.

    Args:
        text: What the model wrote.
        schema: The value's schema.
        root: The schema that has the definitions.
    """
    stripped = text.strip()
    spelled = _LITERALS.get(stripped, stripped)
    is_json, value = _decoded(spelled)
    if is_json and takes(schema, value, root):
        return spelled
    for each in (text, stripped):
        if takes(schema, each, root):
            return json.dumps(each, ensure_ascii=False)
    for other in _other_spellings(stripped, value):
        is_other, found = _decoded(other)
        if is_other and takes(schema, found, root):
            return other
    return spelled if is_json else json.dumps(stripped, ensure_ascii=False)


def _other_spellings(text: str, value: object) -> Iterator[str]:
    """Yields what a text may mean where the schema accepts no text."""
    if isinstance(value, str):  # JSON within a string
        yield value.strip()
    yield text.lower()
    if text.lower() == "none":
        yield "null"
    if text.startswith(("[", "{")) and (literal := json_of(text)) is not None:
        yield literal


def _decoded(text: str) -> tuple[bool, object]:
    """Returns whether a text is JSON, and the value."""
    try:
        return True, json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False, None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
