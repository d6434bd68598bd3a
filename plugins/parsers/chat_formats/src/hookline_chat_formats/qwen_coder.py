"""Calls as parameters in tags: Qwen3-Coder and Qwen 3.5."""

import re

from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_chat_formats.typed_values import ArgumentWriter

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER = "<parameter="
_BEGINS = Markers(_OPEN, _FUNCTION)
_TAG_ENDS = Markers(">")
_VALUE_ENDS = Markers("</parameter>")
_NAME = re.compile(r"[\w.:-]+")


class QwenCoderParser(SteppedToolParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`.

    There are line breaks between the tags.
    """

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_BEGINS))) is not None:
            name = yield from self._name(marker)
            if name is None:
                yield self.not_a_call(marker)
                continue
            yield self.begin_call(name)
            yield from self._arguments(name)
            yield from self.reader.skip_space()
            yield from self.reader.accept(_CLOSE)

    def _name(self, marker: str) -> ToolSteps[str | None]:
        if marker == _OPEN:
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept(_FUNCTION)):
                return None
        name = yield from self.reader.before(_TAG_ENDS)
        if name is None or not _NAME.fullmatch(name.strip()):
            return None
        yield from self.reader.accept(">")
        return name.strip()

    def _arguments(self, name: str) -> ToolSteps[None]:
        writer = ArgumentWriter(self, self.tools.get(name, {}), has_lines=True)
        while True:
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept(_PARAMETER)):
                break
            key = yield from self.reader.before(_TAG_ENDS)
            if key is None:
                return
            yield from self.reader.accept(">")
            if not (yield from writer.value(key.strip(), _VALUE_ENDS)):
                return
        if not self.reader.is_over:
            yield writer.end()
            yield from self.reader.accept(_FUNCTION_END)
