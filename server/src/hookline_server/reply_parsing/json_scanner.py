"""Finds the end of a JSON value in text that arrives in pieces."""

import re

_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')
_END_OF_SCALAR = re.compile(r"[,\]}\s]")


class JsonScanner:
    """Follows one value from its first character, in linear time and unchecked.

    Attributes:
        is_done: Whether the value has ended.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._depth = 0
        self._is_string = False
        self._is_scalar = False
        self._is_escaped = False

    def scan(self, text: str, start: int) -> int:
        """Returns the end of the value's text; `is_done` is True if it is complete."""
        at = start
        if not (self._depth or self._is_string or self._is_scalar):
            self._is_scalar = at < len(text) and text[at] not in '"{['
        if self._is_scalar:
            return self._scalar(text, at)
        while at < len(text) and not self.is_done:
            at = self._string(text, at) if self._is_string else self._outside(text, at)
        return at

    def _scalar(self, text: str, at: int) -> int:
        found = _END_OF_SCALAR.search(text, at)
        self.is_done = found is not None
        return len(text) if found is None else found.start()

    def _outside(self, text: str, at: int) -> int:
        found = _STRUCTURE.search(text, at)
        if found is None:
            return len(text)
        character = found.group()
        if character == '"':
            self._is_string = True
        else:
            self._depth += 1 if character in "{[" else -1
            self.is_done = self._depth <= 0
        return found.end()

    def _string(self, text: str, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            return at + 1
        found = _IN_STRING.search(text, at)
        if found is None:
            return len(text)
        if found.group() == '"':
            self._is_string = False
            self.is_done = self._depth == 0
        else:
            self._is_escaped = True
        return found.end()
