"""Calls as keys and values in tags: GLM 4.5 and later."""

import re

from hookline_chat_formats.typed_values import ArgumentWriter
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_OPEN = Markers("<tool_call>")
_CLOSE = "</tool_call>"
_KEY, _KEY_END, _VALUE = "<arg_key>", "</arg_key>", "<arg_value>"
_AFTER_NAME = Markers(_KEY, _CLOSE)
_KEY_ENDS = Markers(_KEY_END)
_VALUE_ENDS = Markers("</arg_value>")
_NAME = re.compile(r"[\w.:-]+")


class GlmParser(SteppedToolParser):
    """`<tool_call>f <arg_key>a</arg_key> <arg_value>1</arg_value> … </tool_call>`."""

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_OPEN))) is not None:
            name = yield from self.reader.before(_AFTER_NAME)
            if name is None or not _NAME.fullmatch(name.strip()):
                yield self.not_a_call(marker)
                continue
            yield self.begin_call(name.strip())
            yield from self._arguments(name.strip())

    def _arguments(self, name: str) -> ToolSteps[None]:
        schema = self.tools.get(name, {})
        followers = (_KEY, _CLOSE)
        writer = ArgumentWriter(self, schema, has_lines=False, followers=followers)
        while True:
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept(_KEY)):
                break
            key = yield from self.reader.before(_KEY_ENDS)
            if key is None:
                return
            yield from self.reader.accept(_KEY_END)
            yield from self.reader.skip_space()
            yield from self.reader.accept(_VALUE)
            if (yield from writer.value(key.strip(), _VALUE_ENDS)) is None:
                return
        if not self.reader.is_over:
            yield writer.closing_brace()
            yield from self.reader.accept(_CLOSE)
