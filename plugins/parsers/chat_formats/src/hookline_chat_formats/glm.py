"""Calls as keys and values in tags: GLM 4.5 and later."""

import re

from hookline_chat_formats.dialects import Dialect, any_call
from hookline_chat_formats.key_value_calls import CLOSE, KEY, OPEN, KeyValueCall
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_LAST_WORD = re.compile(r"\s{0,64}[\w.:-]{1,128}\s{0,64}\Z")
_LONGEST_LAST_WORD = 256


class GlmParser(SteppedToolParser):
    """`<tool_call>f <arg_key>a</arg_key> <arg_value>1</arg_value> … </tool_call>`.

    The opening tag may be missing before one of the request's functions.
    """

    def steps(self) -> ToolSteps[None]:
        markers = Markers(OPEN, CLOSE, KEY, *self.frames)
        while (
            marker := (yield from self.content_until(markers, (CLOSE,)))
        ) is not None:
            word = self._space.rstrip()
            if marker == KEY and (name := self.known(word)) is not None:
                yield from KeyValueCall(self).arguments(name, end=KEY)
                yield Repair("markup")
                continue
            if word:
                yield self._content(word)
                self._space = self._space[len(word) :]
            if marker == KEY or not (yield from any_call(self, Dialect.KEYS)):
                yield self.not_a_call(marker)

    def certain_length(self, text: str) -> int:
        """Returns the length without a last word, which may be a function's name."""
        start = max(0, len(text) - _LONGEST_LAST_WORD)
        found = _LAST_WORD.search(text, start)
        certain = super().certain_length(text)
        return certain if found is None else min(certain, found.start())
