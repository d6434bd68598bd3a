"""Makes JSON of what a model wrote for a JSON value, and finds where the value ends.

JSON passes unchanged, and each character is looked at once, however the text is cut.
"""

import json
import re
from collections.abc import Callable

from hookline_metrics.front_end_parts import RepairKind

_SPACE = re.compile(r"\s*+")
_OTHER_SPACE = re.compile(r"[^ \t\r\n]")
_IN_STRING = {
    '"': re.compile(r'[^"\\\x00-\x1f]*+'),
    "'": re.compile(r"[^'\"\\\x00-\x1f]*+"),
}
_IN_WORD = re.compile(r"[^,:{}\[\]\"'<`\r\n]*+")
"""A value without quotes: a number, a literal, or text."""
_IN_KEY = re.compile(r"[^\s,:={}\[\]\"'<`]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LITERALS = ("true", "false", "null")
_WORDS = {"True": "true", "False": "false", "None": "null", "": "null"}
_SHORT_ESCAPES = frozenset('"\\/bfnrt')
_HEX = frozenset("0123456789abcdefABCDEF")
_CLOSERS = {"{": "}", "[": "]"}
_FOREIGN = frozenset("<`")
"""What begins a closing tag, or ends a block of code, where no JSON can."""
_AFTER_VALUE = _FOREIGN | frozenset(",}]")
_AFTER_KEY = _FOREIGN | frozenset(":=")


class JsonMender:
    """Follows one value from its first character.

    Attributes:
        is_done: Whether the value has ended.
        repairs: Which slips were mended, in their order.
        rest: What follows the value in the text that was pushed last.
    """

    def __init__(self, repairs: list[RepairKind] | None = None) -> None:
        """Starts; slips are added to `repairs`, or to a list of its own."""
        self.is_done = False
        self.repairs = [] if repairs is None else repairs
        self._step: Callable[[str, int], int] = self._value
        self._return: Callable[[str, int], int] = self._value  # behind a comment
        self._out: list[str] = []
        self._open: list[str] = []  # what closes each list and object
        self._quote = '"'
        self._is_key = False
        self._is_text = False
        self.rest = ""
        self._held: list[str] = []  # what cannot be judged yet
        self._comma: list[str] = []  # a comma, and space, before a further value

    def scan(self, text: str, start: int) -> int:
        """Reads on; returns the end of what belongs to the value."""
        at = start
        while at < len(text) and not self.is_done:
            at = self._step(text, at)
        return at

    def push(self, text: str) -> str:
        """Reads on; returns the JSON that is certain so far."""
        self.rest = text[self.scan(text, 0) :]
        return self.mended()

    def mended(self) -> str:
        """Returns the JSON since the last call."""
        mended = "".join(self._out)
        self._out.clear()
        return mended

    def finish(self) -> str:
        """Returns the end of a value whose text has ended."""
        if not self.is_done:
            self._end("cut")
        return self.mended()

    def _mend(self, kind: RepairKind, text: str = "") -> None:
        self.repairs.append(kind)
        self._out.append(text)

    # Values

    def _value(self, text: str, at: int) -> int:
        """Reads the start of a value: of all, after a colon, or in a list."""
        at = self._skip_space(text, at)
        if at == len(text):
            return at
        character = text[at]
        if character in "}],":
            is_item = bool(self._open) and self._open[-1] == "]"
            return self._without_value(character, at, is_item=is_item)
        if character == "/":
            self._begin_comment()
        elif character in _FOREIGN:
            self._end("bracket")
        else:
            self._pass_comma()
            at = self._begin_value(character, at)
        return at

    def _begin_value(self, character: str, at: int) -> int:
        if character in _CLOSERS:
            self._open.append(_CLOSERS[character])
            self._out.append(character)
            self._step = self._key if character == "{" else self._value
            return at + 1
        if character in "\"'":
            return self._begin_string(character, at, is_key=False)
        self._step, self._is_text = self._word, False
        return at

    def _without_value(self, character: str, at: int, *, is_item: bool) -> int:
        if is_item and (character == "," or character not in self._open):
            self._mend("comma" if character == "," else "bracket")
            return at + 1
        if not is_item:
            self._mend("literal", "null")
        return self._ended(at)

    def _word(self, text: str, at: int) -> int:
        found = _IN_WORD.match(text, at)
        end = at if found is None else found.end()
        self._held.append(text[at:end])
        if end == len(text):
            return end
        if text[end] in ":\"'{[" and (self._is_text or self._holds_text()):
            self._is_text = True
            self._held.append(text[end])
            return end + 1
        self._end_word()
        return self._ended(end)

    def _holds_text(self) -> bool:
        word = "".join(self._held).strip()
        return bool(word) and not _is_scalar(word)

    def _end_word(self) -> None:
        held = self._take_held()
        word = held.rstrip()
        if _is_scalar(word):
            self._out.append(held)
            return
        mended = _WORDS.get(word) or json.dumps(word, ensure_ascii=False)
        self._mend("literal", mended)

    def _ended(self, at: int) -> int:
        """Goes on after a value."""
        self.is_done = not self._open
        self._step = self._after
        return at

    # Strings

    def _begin_string(self, quote: str, at: int, *, is_key: bool) -> int:
        self._quote, self._is_key = quote, is_key
        if quote == "'":
            self._mend("quote")
        self._out.append('"')
        self._step = self._string
        return at + 1

    def _string(self, text: str, at: int) -> int:
        found = _IN_STRING[self._quote].match(text, at)
        end = at if found is None else found.end()
        self._out.append(text[at:end])
        if end == len(text):
            return end
        character = text[end]
        if character == "\\":
            self._step = self._escape
        elif character == self._quote:
            self._step = self._closing
            return end + 1 if self._open else self._closing(text, end) + 1
        elif character == '"':
            self._out.append('\\"')
        else:
            self._mend("character", json.dumps(character)[1:-1])
        return end + 1

    def _escape(self, text: str, at: int) -> int:
        character = text[at]
        self._step = self._string
        if character in _SHORT_ESCAPES:
            self._out.append("\\" + character)
        elif character == "u":
            self._step = self._unicode
        elif character == "'":
            self._out.append("'")
            if self._quote != "'":
                self.repairs.append("escape")
        else:
            self._mend("escape", "\\\\")
            return at
        return at + 1

    def _unicode(self, text: str, at: int) -> int:
        if text[at] in _HEX:
            self._held.append(text[at])
            at += 1
            if len(self._held) < 4:
                return at
            self._out.append("\\u" + self._take_held())
        else:
            self._mend("escape", "\\\\u" + self._take_held())
        self._step = self._string
        return at

    def _closing(self, text: str, at: int) -> int:
        """Decides by what follows a quote whether it ends its string."""
        if not self._open:
            self._end_string()
            return self._ended(at)
        at = self._hold_space(text, at)
        if at == len(text):
            return at
        character = text[at]
        followers = _AFTER_KEY if self._is_key else _AFTER_VALUE
        is_next = character in "\"'" and any(self._held)
        if character in followers or (is_next and not self._is_key):
            self._end_string()
            return at
        self._mend("quote", '\\"' if self._quote == '"' else "'")
        self._step = self._string
        for each in self._take_held():
            escaped = json.dumps(each)[1:-1]
            self._out.append(escaped)
        return at

    def _end_string(self) -> None:
        self._out.append('"' + _OTHER_SPACE.sub(" ", self._take_held()))
        self._step = self._colon if self._is_key else self._after

    # Objects and lists

    def _key(self, text: str, at: int) -> int:
        at = self._skip_space(text, at)
        if at == len(text):
            return at
        character = text[at]
        if character in "}]":
            return self._without_value(character, at, is_item=True)
        if character in ",:=":
            self._mend("comma")
            return at + 1
        if character == "/":
            self._begin_comment()
        elif character in _FOREIGN or character in "{[":
            self._end("bracket")
        else:
            self._pass_comma()
            if character in "\"'":
                return self._begin_string(character, at, is_key=True)
            self._step = self._bare_key
        return at

    def _bare_key(self, text: str, at: int) -> int:
        found = _IN_KEY.match(text, at)
        end = at if found is None else found.end()
        self._held.append(text[at:end])
        if end < len(text):
            self._end_bare_key()
        return end

    def _end_bare_key(self) -> None:
        self._mend("quote", json.dumps(self._take_held(), ensure_ascii=False))
        self._step = self._colon

    def _colon(self, text: str, at: int) -> int:
        at = self._skip_space(text, at)
        if at == len(text):
            return at
        character = text[at]
        self._step = self._value
        if character == ":":
            self._out.append(":")
            return at + 1
        if character in _AFTER_VALUE:
            self._mend("literal", ": null")
            return self._ended(at)
        self._mend("comma", ": ")
        return at + 1 if character == "=" else at

    def _after(self, text: str, at: int) -> int:
        """Reads what follows a value of a list or an object."""
        at = self._skip_space(text, at)
        if at == len(text):
            return at
        character, is_list = text[at], self._open[-1] == "]"
        if character in "}]":
            return self._close(character, at)
        if character in _FOREIGN or (character in "{[" and not is_list):
            self._end("bracket")
            return at
        if character == "/":
            self._begin_comment()
            return at
        if character != ",":
            self._mend("comma")
            if character == ":":
                return at + 1
        self._comma = [","]
        self._step = self._value if is_list else self._key
        return at + 1 if character in ",;" else at

    def _close(self, character: str, at: int) -> int:
        if self._comma:
            _, *space = self._comma
            self._comma = []
            self._mend("comma", "".join(space))
        if character not in self._open:
            self._mend("bracket")
            return at + 1
        while (closer := self._open.pop()) != character:
            self._mend("bracket", closer)
        self._out.append(character)
        return self._ended(at + 1)

    def _begin_comment(self) -> None:
        self._held, self._return = [], self._step
        self._step = self._comment

    def _comment(self, text: str, at: int) -> int:
        """Leaves out `// …` and the line's end, or `/* … */`."""
        self._held = [*self._held[:2], *self._held[2:][-1:], text[at]]
        begin, end = "".join(self._held[:2]), "".join(self._held[2:])
        if begin not in ("/", "//", "/*"):
            return self._no_comment(at)
        if (begin == "//" and text[at] == "\n") or (begin == "/*" and end == "*/"):
            self._mend("character")
            self._held, self._step = [], self._return
        return at + 1

    def _no_comment(self, at: int) -> int:
        """Goes on behind a slash, which may begin a text."""
        self._held, self._step = [], self._return
        if self._return == self._value:
            self._pass_comma()
            self._held, self._step, self._is_text = ["/"], self._word, True
        return at

    # All of them

    def _skip_space(self, text: str, at: int) -> int:
        end = _end_of_space(text, at)
        if end > at:
            (self._comma or self._out).append(_OTHER_SPACE.sub(" ", text[at:end]))
        return end

    def _hold_space(self, text: str, at: int) -> int:
        end = _end_of_space(text, at)
        if end > at:
            self._held.append(text[at:end])
        return end

    def _take_held(self) -> str:
        held = "".join(self._held)
        self._held = []
        return held

    def _pass_comma(self) -> None:
        self._out += self._comma
        self._comma = []

    def _end(self, kind: RepairKind) -> None:
        """Ends the value where it is."""
        step = self._return if self._step == self._comment else self._step
        if step in (self._string, self._escape, self._unicode, self._closing):
            self._held = []  # half of an escape
            self._end_string()
        elif step == self._word:
            self._end_cut_word()
        elif step == self._bare_key:
            self._end_bare_key()
        if self._step == self._colon:
            self._out.append(": null")
        elif step == self._value and not (self._open and self._open[-1] == "]"):
            self._out.append("null")
        self._mend(kind, "".join(reversed(self._open)))
        self._open, self._comma = [], []
        self.is_done = True

    def _end_cut_word(self) -> None:
        word = "".join(self._held).strip()
        whole = [each for each in _LITERALS if word and each.startswith(word)]
        if whole or _NUMBER.fullmatch(word.rstrip("-+.eE")):
            self._held = whole or [word.rstrip("-+.eE")]
        self._end_word()


def _is_scalar(word: str) -> bool:
    return word in _LITERALS or _NUMBER.fullmatch(word) is not None


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
