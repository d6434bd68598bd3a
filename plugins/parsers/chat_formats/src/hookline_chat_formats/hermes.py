"""Calls as JSON objects in tags: Hermes, Qwen 2.5 and Qwen 3."""

from hookline.reply_parsing.call_object import CallObject
from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_OPEN = Markers("<tool_call>")
_CLOSE = "</tool_call>"


class HermesParser(SteppedToolParser):
    """`<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>` for each call."""

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_OPEN))) is not None:
            yield from self.reader.skip_space()
            if (yield from CallObject(self).steps()):
                yield from self.reader.skip_space()
                yield from self.reader.accept(_CLOSE)
            else:
                yield self.not_a_call(marker)
