"""Tells code in Markdown from other text: there, a tag is an example."""

import re

_BREAKS = re.compile(r"`+|\n")
_FENCE = 3


class CodeSpans:
    """Follows a text that arrives in pieces."""

    def __init__(self) -> None:
        self._is_fenced = False
        self._is_inline = False
        self._backticks = 0  # at the end of the text

    def add(self, text: str) -> None:
        """Reads on."""
        at = 0
        for found in _BREAKS.finditer(text):
            if found.start() > at or found.group() == "\n":
                self._end_backticks()
            at = found.end()
            if found.group() == "\n":
                self._is_inline = False
            else:
                self._backticks += at - found.start()
        if at < len(text):
            self._end_backticks()

    @property
    def is_open(self) -> bool:
        """Whether what follows is code."""
        self._end_backticks()
        return self._is_fenced or self._is_inline

    def _end_backticks(self) -> None:
        if self._backticks >= _FENCE:
            self._is_fenced = not self._is_fenced
        elif self._backticks and not self._is_fenced:
            self._is_inline = not self._is_inline
        self._backticks = 0
