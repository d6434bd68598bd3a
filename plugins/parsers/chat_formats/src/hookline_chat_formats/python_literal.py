"""Converts Python literals to JSON piece by piece, without evaluating anything."""

import json
import re

from hookline_server.reply_parsing.parts import CallArguments
from hookline_server.reply_parsing.reader import Markers, Reader, Waits
from hookline_server.reply_parsing.stepped_parser import ToolSteps

DEEPEST = 64
"""Maximum levels of lists and dictionaries; deeper nesting is not a literal."""

_QUOTES = ('"""', "'''", '"', "'")
_ENDS = {quote: Markers(quote, "\\") for quote in _QUOTES}
_WORD_ENDS = Markers(",", ":", "[", "]", "(", ")", "{", "}", "=", '"', "'", "\n", " ")
_CLOSERS = {"[": "]", "(": ")", "{": "}"}
_JSON_CLOSERS = {"]": "]", ")": "]", "}": "}"}
_WORDS = {"True": "true", "False": "false", "None": "null"}
_WORDS |= {each: each for each in _WORDS.values()}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_ESCAPES |= {each: each for each in "\\'\""}
_HEX = frozenset("0123456789abcdefABCDEF")
_HEX_DIGITS = {"x": 2, "u": 4}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class PythonLiteral:
    """Reads one literal; unknown words are strings."""

    def __init__(self, reader: Reader) -> None:
        """Reads nothing yet; the reader is at the literal."""
        self._reader = reader
        self._open: list[str] = []  # what closes each list and dictionary
        self._awaits_key = False
        self._comma = False

    def steps(self) -> ToolSteps[bool]:
        """Yields the literal as JSON.

        Returns:
            Whether the literal is complete; False if the text ended before, or it is
            not one.
        """
        while True:
            yield from self._reader.skip_space()
            character = yield from self._reader.peek()
            if self._open and character == self._open[-1]:
                yield self._closed((yield from self._taken()))
            elif self._open and character == ",":
                yield from self._taken()
                self._comma = True
                self._awaits_key = self._open[-1] == "}"
                continue
            elif character == ":" and self._open and self._open[-1] == "}":
                yield from self._taken()
                yield CallArguments(": ")
                self._awaits_key = False
                continue
            elif character in _CLOSERS:
                if len(self._open) == DEEPEST:
                    return False
                yield self._opened((yield from self._taken()))
                continue
            elif not (yield from self._scalar(character)):
                return False
            if not self._open:
                return True

    def _taken(self) -> Waits[str]:
        character = yield from self._reader.peek()
        yield from self._reader.accept(character)
        return character

    def _opened(self, character: str) -> CallArguments:
        text = self._separator() + ("{" if character == "{" else "[")
        self._open.append(_CLOSERS[character])
        self._awaits_key = character == "{"
        return CallArguments(text)

    def _closed(self, character: str) -> CallArguments:
        self._open.pop()
        self._comma = self._awaits_key = False
        return CallArguments(_JSON_CLOSERS[character])

    def _separator(self) -> str:
        """Returns the comma that a value follows; none before a closing bracket."""
        has_comma, self._comma = self._comma, False
        return ", " if has_comma else ""

    def _scalar(self, character: str) -> ToolSteps[bool]:
        if character in ("'", '"'):
            return (yield from self._string())
        word = yield from self._reader.before(_WORD_ENDS)
        if not word:
            return False
        yield CallArguments(self._separator() + self._json(word))
        return True

    def _json(self, word: str) -> str:
        if not self._awaits_key:
            if (known := _WORDS.get(word)) is not None:
                return known
            if _NUMBER.fullmatch(word):
                return word
        return json.dumps(word, ensure_ascii=False)

    def _string(self) -> ToolSteps[bool]:
        quote = yield from self._quote()
        yield CallArguments(f'{self._separator()}"')
        while True:
            text, marker = yield from self._reader.read_until(_ENDS[quote])
            if marker == "\\":
                text += yield from self._escaped()
            if text:
                yield CallArguments(json.dumps(text, ensure_ascii=False)[1:-1])
            if marker == quote:
                yield CallArguments('"')
                return True
            if self._reader.is_over:
                return False

    def _quote(self) -> Waits[str]:
        for quote in _QUOTES[:2]:
            if (yield from self._reader.accept(quote)):
                return quote
        return (yield from self._taken())

    def _escaped(self) -> Waits[str]:
        """Reads what follows a backslash."""
        character = yield from self._taken()
        digits = ""
        for _ in range(_HEX_DIGITS.get(character, 0)):
            if (yield from self._reader.peek()) not in _HEX:
                return f"\\{character}{digits}"
            digits += yield from self._taken()
        if digits:
            code = int(digits, 16)
            return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"
        return _ESCAPES.get(character, f"\\{character}")


def json_of(text: str) -> str | None:
    """Returns a literal as JSON; None if the text is not one."""
    reader = Reader()
    reader.add(text)
    reader.feed_eof()
    steps = PythonLiteral(reader).steps()
    pieces: list[str] = []
    try:
        while True:
            part = next(steps)
            pieces.append(part.text if isinstance(part, CallArguments) else "")
    except StopIteration as ended:
        return "".join(pieces) if ended.value and reader.is_over else None
